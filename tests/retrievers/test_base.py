from keqa.retrievers import Passage


def test_rendered_has_the_title_where_there_is_one():
    assert Passage("1", "Zebra", "It has stripes.").rendered == "Zebra: It has stripes."
    assert Passage("1", "", "It has stripes.").rendered == "It has stripes."
