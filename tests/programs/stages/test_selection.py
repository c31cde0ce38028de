"""Evidence sentences."""

from __future__ import annotations

from keqa.programs.stages.selection import Selection, lexical_similarity


def test_similarity_prefers_shared_rare_words():
    scores = lexical_similarity(
        ["Curtis | born | ?"], ["The actress was in Halloween.", "The actress Curtis was born in 1958.", "The end."]
    )
    assert scores.index(max(scores)) == 1
    assert scores[2] == 0.0


def test_the_closest_are_selected_in_the_order_of_the_text(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"triples": '["b | c | ?"]'})
    stage = Selection(evidence_sentences=2, similarity=lambda triples, found: [float(len(s)) for s in found])
    stage.set_lm(lm)
    assert stage("q", ["Long one here. No.", "Longest one of all. No."]) == (
        ["b | c | ?"],
        ["Long one here.", "Longest one of all."],
    )


def test_sentences_by_the_name_of_an_embedder(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"triples": '["Carmouth | mayors | ?"]'})
    found = []
    for similarity in ("hashing", None):
        stage = Selection(evidence_sentences=1, similarity=similarity)
        stage.set_lm(lm)
        found.append(stage("q", ["Fish is sold. The mayor is Ann."])[1])
    # No word is shared, so by words the first sentence is as good as any.
    assert found == [["The mayor is Ann."], ["Fish is sold."]]


def test_without_triples_there_is_no_evidence(scripted):
    lm, _ = scripted(lambda name, inputs, config: "garbage")
    stage = Selection()
    stage.set_lm(lm)
    assert stage("q", ["One."]) == ([], [])
