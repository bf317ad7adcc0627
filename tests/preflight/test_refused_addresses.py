"""An address that a driver refuses ends a worker with the reason, and is no defect of it."""

from __future__ import annotations

import contextlib

import pytest

from service.config.schema import Config, Mongodb
from service.worker.preflight.judgement import UnsafeServer
from service.worker.wiring.connect import connect


async def test_a_mongodb_uri_that_the_driver_refuses_is_refused_with_the_setting() -> None:
    config = Config(mongodb=Mongodb(uri="mongodb://h/?tls=true&ssl=false"))

    async with contextlib.AsyncExitStack() as closing:
        with pytest.raises(UnsafeServer) as caught:
            await connect(config, closing)

    told = "MongoDB cannot be asked at its address (Can not specify conflicting values"
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("Correct mongodb.uri.")
