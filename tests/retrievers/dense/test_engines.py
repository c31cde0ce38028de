"""Building by the registry of engines, as a command line does."""

import inspect

import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.retrievers import DenseRetriever, TantivyRetriever, build_dense, build_index, open_index
from keqa.retrievers.elasticsearch import load_index
from keqa.retrievers.engines import ENGINES, Engine

BUILDERS = {"embedded": build_index, "dense": build_dense, "elasticsearch": load_index}


@pytest.mark.parametrize("name", BUILDERS)
def test_every_option_is_one_that_the_builder_takes(name):
    engine, takes = ENGINES[name], dict(inspect.signature(BUILDERS[name]).parameters)
    if "options" in takes:
        takes |= inspect.signature(build_dense).parameters
    shared = {"sources", "overwrite", "progress", "notice"}
    assert {option.name for option in engine.options if not option.locates} | shared <= set(takes)
    assert not shared & {option.name for option in engine.options}
    assert all(option.help for option in engine.options)


@pytest.mark.parametrize(
    ("name", "options", "described", "kind"),
    [
        ("embedded", {"language": "zh"}, "en", TantivyRetriever),
        ("dense", {"model": "some/model", "name": "d"}, "dense, some/model", DenseRetriever),
    ],
)
def test_an_index_is_built_described_and_opened_by_the_registry(
    library, tmp_path, passages, name, options, described, kind
):
    engine = ENGINES[name]
    address = engine.locate({"out": tmp_path / "i"})
    manifest = engine.build(passages, address, sources=["docs"], overwrite=False, notice=print, **options)
    assert (engine.described(manifest), manifest.sources) == (described, ("docs",))
    assert manifest.name == options.get("name", "i")
    opened = open_index(engine.searched(address, manifest))
    assert isinstance(opened, kind)
    assert opened.manifest == manifest


def test_a_place_that_is_not_said_is_asked_for():
    assert ENGINES["elasticsearch"].locate({"url": "http://h:1", "name": "wiki"}) == "elasticsearch://h:1/wiki"
    for given in ({"url": "http://h:1"}, {"name": "wiki"}):
        with pytest.raises(InputError, match=r"needs --url, the cluster, and --name"):
            ENGINES["elasticsearch"].locate(given)
    with pytest.raises(InputError, match="--out is missing: name a folder"):
        ENGINES["dense"].locate({})


def test_an_engine_that_builds_nothing_says_so(passages):
    engine = Engine()
    engine.name = "shelf"
    assert not engine.builds
    for refused in (lambda: engine.build(passages, "shelf://a"), lambda: engine.change("shelf://a", None)):
        with pytest.raises(ConfigurationError, match=r"the engine shelf (builds no|cannot change an) index"):
            refused()
