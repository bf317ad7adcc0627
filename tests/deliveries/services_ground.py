"""What the tests of services share: a configuration, who acts, and a service that is made."""

from __future__ import annotations

import datetime as dt
from typing import Any

from service.config import schema
from service.config.schema import Config, Webhooks
from service.operator.audit import Operator, Via
from service.operator.services import Made, Services
from service.worker.deliveries.secret_box import new_key
from tracking.request import MAIN, Account

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
KEYS = new_key("a")
SHOP = Account("shop")
WHO = Operator("tk_0123456789ab", SHOP, Via.HTTP)
TO: dict[str, Any] = {"destination": "https://hooks.example/in"}


def config_of(mongo_uri: str, database: str, redis_url: str, **webhooks: Any) -> Config:
    return Config(
        mongodb=schema.Mongodb(uri=mongo_uri, database=database),
        redis=schema.Redis(url=redis_url),
        webhooks=Webhooks(**{"keys": KEYS, **webhooks}),
    )


def make(ours: Services, name: str = "erp", **wishes: Any) -> Made:
    return ours.make(WHO, MAIN, name, TO | wishes)


def lower(config: Config, **webhooks: Any) -> Config:
    """The same servers, with other settings."""
    return config_of(config.mongodb.uri, config.mongodb.database, config.redis.url, **webhooks)
