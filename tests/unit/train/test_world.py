"""A world of one does nothing; a lost process is a sentence. Two processes are in tests/system."""

import pytest
import torch

from stelmo.errors import ConfigError, StelmoError
from stelmo.train import world
from stelmo.train.world import Distributed, World, join


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join(torch.device("cpu")) as found:
        yield found


def test_alone_every_verb_gives_back_what_it_got(alone):
    tensor, ids = torch.tensor([1.0, 2.0]), torch.tensor([3, 5])
    alone.all_reduce_(tensor)
    assert tensor.tolist() == [1.0, 2.0]
    assert alone.union(ids, 9) is ids
    assert alone.gather(tensor, 0) is tensor
    assert alone.broadcast("x") == "x"
    assert alone.on_rank_0(lambda: 7) == 7
    assert alone.first


def test_alone_all_rows_are_ours(alone):
    assert alone.rows(6) == range(6)


def test_each_process_has_its_own_rows():
    assert [Distributed(rank, 3).rows(12) for rank in range(3)] == [range(4), range(4, 8), range(8, 12)]


def test_rows_that_cannot_be_shared_are_refused():
    with pytest.raises(ConfigError, match="10 rows cannot be divided equally among 3 processes"):
        Distributed(0, 3).rows(10)


def test_a_lost_process_is_a_sentence(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("Connection closed by peer\nat some line")

    monkeypatch.setattr(world.dist, "all_reduce", broken)
    with pytest.raises(StelmoError, match=r"another process .* lost \(Connection closed by peer\); the same command"):
        Distributed(0, 2).all_reduce_(torch.zeros(1))


def test_what_rank_0_refuses_is_refused_by_all(monkeypatch):
    box = []
    monkeypatch.setattr(world.dist, "broadcast_object_list", lambda given, source, group: box.append(given))

    def refuse():
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        Distributed(0, 2).on_rank_0(refuse)
    assert isinstance(box[0][0][1], ConfigError)


def test_each_process_of_a_machine_has_its_own_card(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch, "empty", lambda *shape, device: None)
    assert world.local_device("cuda") == torch.device("cuda", 3)
    assert world.local_device("cuda:1") == torch.device("cuda", 1)
    assert world.local_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["warp", "cuda:77"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match=f"device: '{name}' is not available here .*; cpu always is"):
        world.local_device(name)


def test_one_process_is_a_world_of_one():
    assert (World.rank, World.size) == (0, 1)


def test_a_number_of_processes_without_their_address_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    message = "WORLD_SIZE is 2, but the environment has no RANK, MASTER_ADDR, MASTER_PORT; start several"
    with pytest.raises(ConfigError, match=message), join(torch.device("cpu")):
        pass
