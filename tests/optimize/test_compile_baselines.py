"""Compiling the methods that KEQA is compared with: what they learn, and what a kill costs."""

from __future__ import annotations

import json

import pytest

import keqa
from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.compile import compile_program
from keqa.programs.baselines import FLARE, AlwaysRetrieve, ClosedBook, IRCoT, ReAct
from keqa.storage.journal import Journal

METHODS = {
    "rag": (AlwaysRetrieve, {"top_k": 2}),
    "cot": (ClosedBook, {"reason": True}),
    "ircot": (IRCoT, {"top_k": 2}),
    "react": (ReAct, {}),
}
MISSED = (1, 4)
"""Towns about which the language model is wrong."""


@pytest.fixture
def world(setting, town):
    """Makes a method over the world of towns, two of whose questions it gets wrong."""

    class Methods(town):
        def _told(self, inputs, shown):
            number = "".join(char for char in inputs["question"] if char.isdigit())
            if int(number) in MISSED:
                return "Nobody at all"
            return f"Ann Spouse{number}" if shown else f"Spouse{number}"

        def AnswerWithKnowledge(self, inputs, config, shown):
            return {"answer": self._told(inputs, shown)}

        def ReasonWithKnowledge(self, inputs, config, shown):
            return {"reasoning": "It follows.", "answer": self._told(inputs, shown)}

        ReasonFromMemory = AnswerFromTrajectory = ReasonWithKnowledge

        def ExtendReasoning(self, inputs, config, shown):
            if inputs["thoughts"] == "[]":
                return {"thought": f"The mayor is Mayor{inputs['question'].split('Town')[1].split()[0]}."}
            return {"thought": f"So the answer is {self._told(inputs, shown)}."}

        def ChooseAction(self, inputs, config, shown):
            query = json.dumps({"query": inputs["question"]})
            if "observation_0" in inputs:
                return {"next_thought": "It is told.", "next_tool_name": "finish", "next_tool_args": "{}"}
            return {"next_thought": "Look it up.", "next_tool_name": "search", "next_tool_args": query}

    def make(name, **kwargs):
        made = setting(Methods(**kwargs))
        cls, settings = METHODS[name]
        searches = () if cls is ClosedBook else (made.program._retriever.value,)
        made.program = cls(*searches, demonstrations=False, **settings)
        made.program.set_lm(made.lm)
        return made

    return make


def learned(program):
    return {name: [dict(demo) for demo in p.demos] for name, p in program.named_predictors()}


def compiled(world, folder=None, **options):
    return compile_program(
        world.program, world.train, world.val, folder=folder, **{"sets": 2, "in_flight": 1} | options
    )


@pytest.mark.parametrize("name", METHODS)
def test_demonstrations_come_from_right_answers_alone(world, name, tmp_path):
    made = world(name)
    found = compiled(made)
    demos = learned(found.program)
    assert all(demos.values())
    shown = json.dumps(demos)
    assert not any(f"Town{number} " in shown for number in MISSED)
    assert {demo["answer"] for demo in demos["answer"]} <= {f"Ann Spouse{number}" for number in (0, 2, 3, 5)}
    assert (found.report.before_score.mean, found.report.after_score.mean) == (pytest.approx(2 / 3), 1.0)
    assert (found.report.settings, found.report.reference, found.report.curve) == ({}, {}, [])
    assert found.report.problems == []
    assert not any(learned(made.program).values())


@pytest.mark.parametrize("name", METHODS)
def test_the_saved_method_answers_alike(world, name, tmp_path):
    made = world(name)
    found = compiled(made)
    found.save(tmp_path / "program", command="keqa compile")
    searched = getattr(made.program, "_retriever", None)
    loaded = keqa.load(tmp_path / "program", searched and searched.value, method=name)
    loaded.set_lm(made.lm)
    assert type(loaded) is type(found.program)
    assert learned(loaded) == learned(found.program)
    question = made.val[0].question
    assert loaded(question).answer == found.program(question).answer == "Ann Spouse6"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ircot", "react"])
def test_killed_anywhere_it_goes_on_and_ends_alike(world, killed, name, tmp_path):
    whole = compiled(world(name), tmp_path / "whole")
    total = whole.report.spent.calls
    for after in (2, total // 2, total - 2):
        made = world(name, killed_after=after)
        made.program.bound.workers = 1
        with pytest.raises(killed):
            compiled(made, tmp_path / f"killed {after}")
        made = world(name)
        again = compiled(made, tmp_path / f"killed {after}")
        # At most the question that was in work is asked again.
        assert total - after <= len(made.engine.calls) < total - after + 4
        assert learned(again.program) == learned(whole.program)
        assert again.report.trials == whole.report.trials
    made = world(name)
    assert compiled(made, tmp_path / "whole").report.spent_earlier.calls == total
    assert made.engine.calls == []


def test_too_few_questions_choose_as_well_and_none_is_asked_twice_of_one_program(world):
    made = world("rag")
    made.val = None
    found = compile_program(made.program, made.train, None, sets=0, in_flight=1)
    assert "too few to hold some out" in found.report.problems[0]
    assert made.engine.count == {"AnswerWithKnowledge": 6}


def test_sets_differ_in_size_so_that_long_prompts_may_fit(world):
    made = world("rag")
    shown = set()
    reply = made.engine.reply

    def watching(name, inputs, config):
        shown.add(made.engine.local.demos)
        return reply(name, inputs, config)

    made.engine.reply = watching
    compiled(made, sets=3)
    assert shown == {0, 1, 2, 4}


def test_a_search_costs_nothing_where_nothing_is_tuned(world):
    made = world("rag")
    with pytest.raises(ConfigurationError, match="cost_per_retrieval weighs searches where settings are tuned"):
        compiled(made, cost_per_retrieval=0.1)
    assert made.engine.calls == []


def test_calls_with_token_probabilities_are_kept(world, tmp_path):
    made = world("ircot")
    made.engine.probability = 0.99
    program = FLARE(made.program._retriever.value, demonstrations=False, first_retrieval=False)
    program.set_lm(made.lm)
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        (trace,) = Asking(journal, f1).traces(program, made.train[:1])
    assert trace.record.answer == "Spouse0"
    assert [sorted(outputs) for _, _, outputs in trace.steps] == [["thought"], ["thought"]]
