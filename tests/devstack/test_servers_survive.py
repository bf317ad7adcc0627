"""What was acknowledged is still there after a `kill -9` of each server."""

from __future__ import annotations

import threading

import greenstalk
import pymongo
import pytest
import redis

from devstack.errors import ServerFailed
from devstack.kinds import BEANSTALKD, MONGODB, REDIS, Durability
from devstack.servers import Server, running


def test_a_put_job_survives_a_kill_of_beanstalkd(beanstalkd: Server) -> None:
    with greenstalk.Client((beanstalkd.host, beanstalkd.port)) as client:
        put = client.put("parcel")

    beanstalkd.kill()
    beanstalkd.start()

    with greenstalk.Client((beanstalkd.host, beanstalkd.port)) as client:
        job = client.reserve(timeout=5)
        assert (job.id, job.body) == (put, "parcel")


def test_a_written_key_survives_a_kill_of_redis() -> None:
    with running(REDIS) as server, redis.Redis.from_url(server.url) as client:
        client.rpush("wait_list:usps", "A1", "B2")

        server.kill()
        server.start()

        assert client.lrange("wait_list:usps", 0, -1) == [b"A1", b"B2"]


def test_a_majority_write_survives_a_kill_of_mongod() -> None:
    client: pymongo.MongoClient[dict[str, str]]
    with running(MONGODB) as server, pymongo.MongoClient(server.url, w="majority") as client:
        trackings = client["bucket"]["tracking"]
        trackings.insert_one({"_id": "usps:A1"})

        server.kill()
        server.start()

        assert trackings.find_one() == {"_id": "usps:A1"}


def test_a_paused_server_answers_nothing_until_it_is_resumed(beanstalkd: Server) -> None:
    beanstalkd.pause()
    with pytest.raises(ServerFailed, match="does not answer"):
        beanstalkd.wait_ready(0.1)

    beanstalkd.resume()

    beanstalkd.wait_ready()


def test_a_stopped_server_has_no_process_and_starts_again_at_its_port(beanstalkd: Server) -> None:
    port = beanstalkd.port
    beanstalkd.stop()
    assert beanstalkd.pid is None

    beanstalkd.start()

    assert beanstalkd.pid is not None
    assert beanstalkd.port == port


def test_a_frozen_server_can_be_stopped(beanstalkd: Server) -> None:
    beanstalkd.pause()

    beanstalkd.stop()

    assert beanstalkd.pid is None


def test_a_server_outlives_the_thread_that_started_it(beanstalkd: Server) -> None:
    beanstalkd.kill()
    thread = threading.Thread(target=beanstalkd.start)
    thread.start()
    thread.join()

    with greenstalk.Client((beanstalkd.host, beanstalkd.port)) as client:
        assert client.put("parcel") == 1


def test_without_durability_a_kill_loses_what_was_put() -> None:
    with running(BEANSTALKD, Durability.NONE) as server:
        with greenstalk.Client((server.host, server.port)) as client:
            client.put("parcel")
        server.kill()
        server.start()

        with greenstalk.Client((server.host, server.port)) as client:
            assert client.stats()["current-jobs-ready"] == 0
