"""Routes about the index: the library's own answers; maps at once and as jobs; and what is refused."""

import numpy as np
import pytest
import tiny
from unit.serve import servers
from unit.serve.servers import BANK, LOAN

from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore import clusters, contexts, maps, mixing, search
from stelmo.explore import index as indices
from stelmo.text import formats

MODEL = tiny.model()
SENTENCES = [
    BANK,
    LOAN,
    ["a", "river", "bank", "."],
    ["the", "Bank", "<b>", "of", "日本", "."],
    ["a", "bank", "a", "bank", "the", "bank"],
    ["BANK", "über", "bank"],
    ["the", "river", "."],
]
USES = 9  # of bank


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return indices.build(MODEL, SENTENCES, tmp_path_factory.mktemp("index") / "uses")


@pytest.fixture(scope="module")
def client(index):
    with servers.asked(MODEL, index=index, uses=8) as client:
        yield client


def answered(client, route, **body):
    answer = client.post(f"/v1/{route}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_words_begin_with_the_prefix_and_the_most_frequent_come_first(client, index):
    found = client.get("/v1/words", params={"prefix": "B", "limit": 5}).json()["words"]
    assert found[0] == {"word": "bank", "uses": USES}
    everything = client.get("/v1/words", params={"limit": 200}).json()["words"]
    assert {entry["word"]: entry["uses"] for entry in everything} == dict(index.words)
    counts = [entry["uses"] for entry in everything]
    assert counts == sorted(counts, reverse=True)
    assert len(client.get("/v1/words", params={"limit": 2}).json()["words"]) == 2
    assert client.get("/v1/words", params={"prefix": "zzz"}).json() == {"words": []}


@pytest.mark.parametrize("layer", [0, 1, 2, "mean"])
def test_neighbours_are_those_of_the_search_without_the_sentence_itself(client, index, layer):
    found = answered(client, "neighbours", tokens=BANK, position=1, layer=layer, k=4)
    query_D = MODEL.embed([BANK], layer)[0][1]
    hits = search.nearest(index, query_D, mixing.of_layer(layer, 3), 4, exclude=BANK)
    assert [hit["id"] for hit in found["contextual"]] == [hit.use.id for hit in hits]
    assert [hit["similarity"] for hit in found["contextual"]] == pytest.approx([hit.similarity for hit in hits])
    assert BANK not in [hit["tokens"] for hit in found["contextual"]]
    assert all(hit["tokens"] in SENTENCES for hit in found["contextual"])


def test_neighbours_of_one_word_alone(client):
    found = answered(client, "neighbours", tokens=["my", "bank"], position=1, word="River", k=9)
    assert [hit["tokens"][hit["position"]] for hit in found["contextual"]] == ["river"] * 3


def test_static_neighbours_stand_beside(client):
    found = answered(client, "neighbours", tokens=BANK, position=1, k=3)["static"]
    assert [(entry["word"], pytest.approx(entry["similarity"])) for entry in found] == search.static_of_model(
        MODEL
    ).neighbours("bank", 3)


def expected_vectors(index, ids, layer):
    return mixing.mixed(index.layers(ids), mixing.of_layer(layer, 3))


def test_a_map_has_every_use_as_a_point(client, index):
    found = answered(client, "map", word="Bank", mixes=[2, 0], limit=100)
    uses = found["uses"]
    assert [flat["mix"] for flat in found["maps"]] == [2, 0]
    assert (found["total"], len(uses)) == (USES, 8)  # the server's own limit
    assert {use["tokens"][use["position"]].lower() for use in uses} == {"bank"}
    for flat in found["maps"]:
        vectors_ND = expected_vectors(index, [use["id"] for use in uses], flat["mix"])
        points = maps.flatten(vectors_ND, "pca")
        assert np.array(flat["points"]) == pytest.approx(points, abs=1e-6)
        assert flat["trustworthiness"] == pytest.approx(maps.trustworthiness(vectors_ND, points))


def test_clusters_are_those_of_the_contexts_whatever_the_mix(client, index):
    found = answered(client, "map", word="bank", mixes=[1, 2], clusters=2)
    ids = [use["id"] for use in found["uses"]]
    around = contexts.of_model(MODEL).vectors([index.use(id) for id in ids])
    expected = clusters.clusters(around, 2, 0)
    assert [use["cluster"] for use in found["uses"]] == expected.tolist()
    assert [cluster["size"] for cluster in found["clusters"]] == np.bincount(expected).tolist()
    assert [cluster["words"] for cluster in found["clusters"]] == clusters.labels(
        [index.use(id) for id in ids], expected
    )
    assert [cluster["examples"] for cluster in found["clusters"]] == clusters.central(around, expected, 3)


def test_a_mix_is_given_back_as_it_was_asked_for(client):
    mix = {"weights": [0.25, 0.5, 0.25], "gamma": 2.0}
    (flat,) = answered(client, "map", word="bank", mixes=[mix])["maps"]
    assert flat["mix"] == mix
    (mean,) = answered(client, "map", word="bank")["maps"]
    assert mean["mix"] == "mean"


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_of_many_uses_some_from_all_over_are_shown(client, index, limit):
    shown = [use["id"] for use in answered(client, "map", word="bank", limit=limit)["uses"]]
    everything = [use.id for use in index.uses("bank")]
    assert len(shown) == limit
    assert set(shown) <= set(everything)
    assert shown == sorted(set(shown))
    assert shown[0] == everything[0]


def test_a_slow_map_is_a_job_whose_map_comes_when_it_is_done(client):
    answer = client.post("/v1/map/jobs", json={"word": "bank", "mixes": [2, 1], "method": "tsne"})
    assert answer.status_code == 202
    place = f"/v1/map/jobs/{answer.json()['job']}"
    servers.wait_for(lambda: client.get(place).json()["state"] != "running")
    done = client.get(place).json()
    assert (done["state"], done["progress"], done["error"]) == ("done", 1.0, None)
    assert done["map"]["method"] == "tsne"
    assert np.isfinite([flat["points"] for flat in done["map"]["maps"]]).all()
    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == client.delete(place).status_code == 404


def test_jobs_that_fail_say_why(client, monkeypatch):
    def refuse(*_):
        raise ConfigError("UMAP is not installed")

    monkeypatch.setattr(maps, "flatten", refuse)
    place = f"/v1/map/jobs/{client.post('/v1/map/jobs', json={'word': 'bank'}).json()['job']}"
    servers.wait_for(lambda: client.get(place).json()["state"] != "running")
    failed = client.get(place).json()
    assert (failed["state"], failed["error"], failed["map"]) == ("failed", "UMAP is not installed", None)


WRONG = {
    "a word without uses": ("map", {"word": "nowhere\u202e"}, 404, "no use of"),
    "a slow method": ("map", {"word": "bank", "method": "tsne"}, 422, "/v1/map/jobs"),
    "an unknown method": ("map", {"word": "bank", "method": "som"}, 422, "body.method"),
    "a layer that is not there": ("map", {"word": "bank", "mixes": [3]}, 422, "layer: 3"),
    "three mixes": ("map", {"word": "bank", "mixes": [0, 1, 2]}, 422, "body.mixes"),
    "too many clusters": ("map", {"word": "bank", "clusters": 21}, 422, "body.clusters"),
    "a job for a word without uses": ("map/jobs", {"word": "nowhere"}, 404, "no use of"),
    "a sentence shorter than its position": (
        "map",
        {"word": "bank", "own": {"tokens": ["a"], "position": 1}},
        422,
        "has 1 tokens",
    ),
    "too many nearest uses": ("map", {"word": "bank", "near": 21}, 422, "body.near"),
    "a position beyond the end": ("neighbours", {"tokens": ["a"], "position": 1}, 422, "has 1 tokens"),
    "too many neighbours": ("neighbours", {"tokens": ["a"], "position": 0, "k": 201}, 422, "201 answers"),
}


@pytest.mark.parametrize(("route", "body", "status", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence(client, route, body, status, message):
    answer = client.post(f"/v1/{route}", json=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["detail"]
    assert answer.json()["detail"].isprintable()


def test_more_clusters_than_uses_are_as_many_as_there_are(client):
    found = answered(client, "map", word="über", clusters=5)
    assert [cluster["size"] for cluster in found["clusters"]] == [1]
    assert found["maps"][0]["points"] == [[0.0, 0.0]]


def test_an_index_of_another_model_is_refused(index):
    with (
        pytest.raises(ConfigError, match="another model"),
        servers.asked(Model(tiny.saved(tiny.WORD_CONFIG)), index=index),
    ):
        pass


def test_a_sentence_of_your_own_is_placed_on_the_map(client, index):
    own = {"tokens": ["my", "bank", "of", "gold"], "position": 1}
    (plain,) = answered(client, "map", word="bank", mixes=[2])["maps"]
    (flat,) = answered(client, "map", word="bank", mixes=[2], own=own, near=3)["maps"]
    assert flat["points"] == plain["points"]
    assert (plain["own"], plain["near"]) == (None, [])
    uses = answered(client, "map", word="bank", mixes=[2])["uses"]
    vectors_ND = expected_vectors(index, [use["id"] for use in uses], 2)
    query_D = MODEL.embed([own["tokens"]], 2)[0][1]
    expected = maps.place(vectors_ND, np.array(flat["points"]), query_D, "pca", 3)
    assert flat["own"]["point"] == pytest.approx(expected.point, abs=1e-4)
    assert [use for use, _ in flat["own"]["near"]] == [use for use, _ in expected.near]
    assert [[use for use, _ in near] for near in flat["near"]] == [
        [use for use, _ in near] for near in maps.nearest(vectors_ND, 3)
    ]


def test_a_slow_map_places_your_own_sentence_too(client):
    asked = {"word": "bank", "method": "tsne", "own": {"tokens": ["my", "bank"], "position": 1}}
    place = f"/v1/map/jobs/{client.post('/v1/map/jobs', json=asked).json()['job']}"
    servers.wait_for(lambda: client.get(place).json()["state"] != "running")
    assert np.isfinite(client.get(place).json()["map"]["maps"][0]["own"]["point"]).all()


def words_of(client, route, **params):
    answer = client.get(f"/v1/words/{route}", params=params)
    assert answer.status_code == 200, answer.text
    return [entry["word"] for entry in answer.json()["words"]]


def test_words_known_similar_and_suggested(client, index):
    assert words_of(client, "known", word=["River", "nowhere", "bank", "BANK"]) == ["river", "bank"]
    assert words_of(client, "similar", word="Bnak")[0] == "bank"
    assert words_of(client, "suggested") == search.separating(index, 10)


def test_groups_of_uses_have_substitutes(client, index):
    ids = index.ids_of("bank").tolist()[:8]  # the server's own limit
    groups = [[index.use(id) for id in part] for part in (ids[:3], ids[3:])]
    found = answered(client, "substitutes", groups=[ids[:3], ids[3:]], k=2)["groups"]
    assert found == contexts.substitutes(MODEL, groups, 2)
    assert [len(words) for words in found] == [2, 2]
    assert answered(client, "substitutes", groups=[ids])["groups"] == [[]]


@pytest.mark.parametrize(
    ("groups", "message"), [([[0], [99]], "no use with id 99"), ([[0] * 9], "9 uses; this server accepts at most 8")]
)
def test_uses_that_are_not_there_or_too_many_have_none(client, groups, message):
    answer = client.post("/v1/substitutes", json={"groups": groups})
    assert answer.status_code == 422
    assert message in answer.json()["detail"]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("substitutes", {"groups": [[0], [99]]}),
        ("map", {"word": "nowhere"}),
        ("map", {"word": "bank", "own": {"tokens": ["a"], "position": 3}}),
        ("neighbours", {"tokens": BANK, "position": 1, "layer": 9}),
        ("map/jobs", {"word": "bank", "method": "som"}),
    ],
)
def test_no_answer_names_the_folder_of_the_index(client, index, route, body):
    answer = client.post(f"/v1/{route}", json=body)
    assert answer.status_code in (404, 422)
    assert str(index.folder) not in answer.text
    assert str(index.folder.parent.parent) not in answer.text


def test_the_text_is_tokenised_by_the_rules_of_the_index(tmp_path):
    french = indices.build(MODEL, [["l'", "homme"], ["l'", "eau"]], tmp_path / "uses", rules=indices.Rules("fr"))
    with servers.asked(MODEL, index=french) as asked:
        assert answered(asked, "tokenize", text="L'homme voit l'eau.") == {
            "sentences": [["L'", "homme", "voit", "l'", "eau", "."]]
        }
        assert words_of(asked, "known", word=["l'", "homme", "eau", "voit"]) == ["l'", "homme", "eau"]
        (found,) = asked.get("/v1/models").json()
    assert (found["language"], found["contractions"]) == ("fr", "ptb")


def test_words_with_half_a_character_can_be_shown(tmp_path):
    broken = indices.build(MODEL, [["a\ud800b", "bank"], ["a", "bank"]], tmp_path / "uses")
    with servers.asked(MODEL, index=broken) as asked:
        assert "a\ufffdb" in [found["word"] for found in asked.get("/v1/words").json()["words"]]
        assert answered(asked, "map", word="bank")["total"] == 2
        assert answered(asked, "neighbours", tokens=["a", "bank"], position=1, k=3)["contextual"]


def test_a_map_has_the_columns_of_the_data(tmp_path):
    tagged = [
        formats.Sentence(["the", "bank"], "file", 1, (("upos", ["DET", "NOUN"]),)),
        formats.Sentence(["they", "bank"], "file", 1, (("upos", ["PRON", "VERB"]),)),
    ]
    with servers.asked(MODEL, index=indices.build(MODEL, tagged, tmp_path / "uses")) as asked:
        uses = answered(asked, "map", word="bank")["uses"]
    assert [use["columns"] for use in uses] == [{"upos": "NOUN"}, {"upos": "VERB"}]
