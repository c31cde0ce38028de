"""Bootstrapped demonstrations for every predictor, and the search for the set of them that serves best.

KEQA's come from records of training questions, and say which calls there should have been:

===================  ==========================================================================================
decompose            the final answer is right; where no question of a shape comes out right, gold decompositions
summarize            the final answer is right: it passes the metric's threshold, in whatever form, and follows
                     from answers that are not known to be wrong
quiz                 a try agrees with the quiz's gold answer; written in the gold answer's form
answer               with passages the answer is right, and better than the closed-book one (section 3.4's utility);
                     the gold answer where the passages contain it and another one was taken
same                 both tries right are the same, exactly one right differ, both wrong is dropped
construct            the answer drawn from the evidence that the triples found is right
draft                as decompose; drafts are what memory said, UNKNOWN where that is wrong or builds on an UNKNOWN
cite                 the answer is right, and cites what the utility reference found helpful, or else what was kept and
                     tells it; UNKNOWN where no passage tells the gold answer
write, items,        the written answer passes the metric's threshold; without what its passages do not carry
compare
===================  ==========================================================================================

The utility judge has none here: its demonstrations come from the utility reference alone. Where no quiz, answer or
judgement came out right, gold answers alone show the form of a reply, which is what such a language model lacks. Of
other programs those calls are demonstrations from which `keqa.optimize.judged` says that one may learn.
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import dspy

from keqa.data.example import Example
from keqa.data.question import Question, broken_references, numbered_quizzes, quiz_key
from keqa.errors import RetrievalError
from keqa.metrics.accuracy import agrees, contains_answer
from keqa.metrics.answers import same_answer
from keqa.metrics.utility import Correctness, gain
from keqa.optimize.alignment import Settled, settled_quizzes
from keqa.optimize.asking import Asking, Origins, Trace, Trial
from keqa.optimize.failures import FailureMonitor, Failures
from keqa.optimize.judged import is_verdict, judges, lessons
from keqa.optimize.options import Options
from keqa.optimize.written import written_call
from keqa.programs.build import complete
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.session import Session, run_blocking
from keqa.programs.fingerprint import digest
from keqa.programs.gate import leader
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord, QuizRecord
from keqa.programs.stage import Stage

P = TypeVar("P", bound=Program)

AS_IT_IS = "the program as it is"
SUMMARY = "summarizing.summarize"
_LONGEST = 6000
"""Characters of one demonstration; longer ones would leave a small context window no room for the question."""
_ENOUGH = 32
"""Gold quizzes that are searched for: each costs a search, and a set of demonstrations holds a handful."""
UNKNOWN, _BESIDE = "UNKNOWN", 2
"""What a draft or a reading says that does not know, and how many passages a demonstration shows that are not cited."""
_SO_FAR = ("thoughts", "verified")
"""Inputs that grow from call to call; a set of demonstrations shows beginnings and ends."""

ClosedBook = Callable[[Settled], float | None]
"""Correctness of the answer without passages, for a quiz that was not examined; None where the call failed."""


class Candidate(NamedTuple):
    """A possible demonstration: its fields, what kind of example it is, and the id of the question it comes from."""

    demo: Mapping[str, Any]
    kind: str
    root: str


def bootstrap(
    program: Program, trainset: Sequence[Example], valset: Sequence[Example], asking: Asking, options: Options
) -> tuple[Program, list[Trial], bool]:
    """Find demonstrations in what the program gets right on training questions, and whether there are any.

    A few sets of them, drawn at random with mixed kinds of examples, are scored on the validation split; every second
    set is half as large, since a small language model may do better with less to read. Other programs than KEQA may
    show all the passages that they found, so every third set of theirs is smaller still. The best is kept, and none
    that is not better than the program as it was. Unless every question is right by then, each predictor is tried
    without its demonstrations as well, or with them where the best has none: those of one predictor may help while
    those of another do harm.
    """
    best, trials = program, [asking.trial(program, AS_IT_IS, valset)]
    pools = possible(program, asking.traces(program, trainset, "answering training questions"), asking, options)
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    examples = {one.id: one for one in trainset}
    for name, pool in pools.items():
        for one in pool:
            asking.origins.add(signatures[name], one.demo, examples[one.root])

    def scored(chosen: Mapping[str, Sequence[Candidate]], name: str) -> bool:
        """Whether a set is the best so far."""
        nonlocal best
        candidate, most = with_demos(program, chosen, asking.origins), max(trial.score for trial in trials)
        trials.append(asking.trial(candidate, name, valset))
        if trials[-1].score > most:
            best = candidate
        return best is candidate

    tried: list[dict[str, list[Candidate]]] = []
    for number in range(options.sets if any(pools.values()) else 0):
        chosen = _drawn(program, pools, options, number)
        if chosen not in tried:
            tried.append(chosen)
            scored(chosen, f"demonstrations {number + 1}")
    if tried and max(trial.score for trial in trials) < 1:
        # The first trial is that of the program as it was.
        leading, _ = max(zip(tried, trials[1:], strict=True), key=lambda pair: pair[1].score)
        leading = {name: some for name, some in leading.items() if some}
        kept = {} if best is program else leading
        for name in leading if len(leading) > 1 else ():
            wanted = {other: some for other, some in leading.items() if (other in kept) != (other == name)}
            if scored(wanted, f"{'without' if name in kept else 'with'} those of {name}"):
                kept = wanted
    return best, trials, any(pools.values())


def _drawn(
    program: Program, pools: Mapping[str, list[Candidate]], options: Options, number: int
) -> dict[str, list[Candidate]]:
    judging, halved = judges(program), number % (2 if isinstance(program, KEQA) else 3)
    chosen = {}
    for name, pool in pools.items():
        most = options.judge_demos if name in judging else options.demos
        rng = random.Random(f"{options.seed} {number} {name}")
        chosen[name] = choose(pool, max(1, most >> halved) if most else 0, rng, balanced=name in judging)
    return chosen


def possible(program: Program, traces: Sequence[Trace], asking: Asking, options: Options) -> dict[str, list[Candidate]]:
    """All possible demonstrations, by the name of the predictor; what they lack is asked for."""
    if not isinstance(program, KEQA):
        return from_calls(program, traces, threshold=options.threshold)
    watch = asking.failures.watch("answering closed book")
    how: dict[str, Any] = {"threshold": options.threshold, "failures": asking.failures, "metric": asking.metric}
    return from_records(program, traces, closed_book=partial(_closed_book, program, asking, watch), **how)


def _closed_book(program: KEQA, asking: Asking, watch: FailureMonitor, one: Settled) -> float | None:
    session, recall = Session(program.bound, blocking=True), program.examination.recall
    try:
        with asking.keeping():
            answer = run_blocking(lambda: session.run(recall(Question(*one.asked().values()))))
    except CallError as error:
        watch.outcome(error.cause, str(error) if is_transient(error.cause) and not error.unusable else None)
        return None
    watch.outcome()
    return one.correctness(asking.metric, answer)


def with_demos(program: P, chosen: Mapping[str, Sequence[Candidate]], origins: Origins) -> P:
    """A copy of a program with demonstrations; predictors without any keep theirs."""
    copied: P = program.deepcopy()
    for name, predictor in copied.named_predictors():
        if chosen.get(name):
            predictor.demos = [dspy.Example(**one.demo) for one in chosen[name]]
    copied.learned = origins.known_to(copied)
    return copied


def choose(pool: Sequence[Candidate], count: int, rng: random.Random, *, balanced: bool = False) -> list[Candidate]:
    """Draw demonstrations of mixed kinds, and from as many questions as there are, in random order.

    Balanced are the verdicts of a judge: all kinds are there equally often. Where only one is there, none is drawn,
    since a judge shown one verdict alone would give no other.
    """
    kinds: dict[str, list[Candidate]] = {}
    for one in pool:
        if sum(len(str(value)) for value in one.demo.values()) <= _LONGEST:
            kinds.setdefault(one.kind, []).append(one)
    groups = [kinds[kind] for kind in sorted(kinds)]
    for group in groups:
        rng.shuffle(group)
    rng.shuffle(groups)
    if balanced:
        if len(groups) < 2:
            return []
        count = min(count // len(groups), *map(len, groups)) * len(groups)
    chosen: list[Candidate] = []
    while len(chosen) < count and any(groups):
        for group in groups:
            if group and len(chosen) < count:
                roots = {one.root for one in chosen}
                fresh = next((place for place, one in enumerate(group) if one.root not in roots), 0)
                chosen.append(group.pop(fresh))
    rng.shuffle(chosen)
    return chosen


def kind_of(answer: str, answer_type: str) -> str:
    """The kind of an answer: demonstrations of dates alone would not teach how people are named."""
    if answer_type != "short":
        return f"{answer_type} {answer.lower()}" if answer_type == "yes/no" else answer_type
    form = "number" if any(char.isdigit() for char in answer) else "text"
    return f"{form}, {'one word' if len(answer.split()) == 1 else 'words'}"


def from_calls(program: Program, traces: Sequence[Trace], *, threshold: float) -> dict[str, list[Candidate]]:
    """All possible demonstrations of a program of whose parts nothing is known, by the name of the predictor."""
    calls = dict(program.named_predictors())
    found: dict[str, dict[str, Candidate]] = {name: {} for name in calls}
    for trace in traces:
        if not is_right(trace, threshold):
            continue
        texts = [
            [value.strip() for value in outputs.values() if isinstance(value, str)] for _, _, outputs in trace.steps
        ]
        # One whose texts are all empty says nothing.
        steps = [step for step, outputs in zip(trace.steps, texts, strict=True) if any(outputs) or not outputs]
        for name, fields in lessons(program, steps, trace.example, trace.record):
            one = Candidate(fields, _kind(calls[name].signature, fields), trace.example.id)
            found[name].setdefault(digest(dict(fields)), one)
    return {name: list(some.values()) for name, some in found.items()}


def from_records(
    program: KEQA,
    traces: Sequence[Trace],
    *,
    metric: Correctness,
    threshold: float,
    closed_book: ClosedBook,
    failures: Failures | None = None,
) -> dict[str, list[Candidate]]:
    """All possible demonstrations of a KEQA, by the name of the predictor; those switched off have none."""
    right = [trace for trace in traces if is_right(trace, threshold)]
    found: dict[str, list[Candidate]] = {}
    if program.decompose:
        found["decomposition.decompose"] = _decompositions(traces, right)
        found[SUMMARY] = list(_summaries(right))
    settled = [one for t in traces if t.record is not None for one in settled_quizzes(t.example, t.record)]
    if program.examine:
        found["examination.quiz"] = list(_tries(settled))
        found["examination.same"] = _judgements(settled)
    found["answering.answer"] = list(_answers(program, settled, metric, closed_book))
    if program.select:
        found["selection.construct"] = list(_triples(settled))
    wanting = {name for name, some in found.items() if not some}
    if any(one.quiz.source == "passages" and one.agrees(one.quiz.answer or "") for one in settled):
        # Answers that are right and teach nothing, since memory has them too, are no reason to show gold ones.
        wanting.discard("answering.answer")
    watch = (failures or Failures()).watch("searching for what tells gold answers")
    found |= _from_gold_answers(program, [trace.example for trace in traces], wanting, watch)
    for trace in traces if program.writing is not None else ():
        call = None if trace.record is None or trace.score < threshold else written_call(program, trace.record)
        if call is not None:
            found.setdefault(call[0], []).append(Candidate(call[1], trace.example.answer_type, trace.example.id))
    predictors = dict(program.named_predictors())
    found |= {name: some for name, some in of_forms(program, traces, threshold).items() if name in predictors}
    return {
        name: [Candidate(complete(predictors[name].signature, one.demo), one.kind, one.root) for one in some]
        for name, some in found.items()
    }


def of_forms(program: KEQA, traces: Sequence[Trace], threshold: float) -> dict[str, list[Candidate]]:
    """Possible demonstrations of the stages that take one call for several, from whatever form asked them."""
    right = [trace for trace in traces if is_right(trace, threshold)]
    settled = [one for t in traces if t.record is not None for one in settled_quizzes(t.example, t.record)]
    entries = getattr(program.reference, "entries", ())
    helpful = {(quiz_key(entry.quiz), entry.passage): entry.helpful for entry in entries}
    return {"drafting.draft": list(_drafts(right)), "citing.cite": list(_citations(settled, helpful))}


def learned_forms(
    program: KEQA, before: KEQA, trainset: Sequence[Example], asking: Asking, options: Options
) -> dict[str, Stage]:
    """The stages of one call that a program lacks, with demonstrations from what it was `before` on the questions."""
    twin: KEQA = program.deepcopy()
    twin.change(draft=True, cite=True)
    had, predictors = dict(program.named_predictors()), dict(twin.named_predictors())
    examples, found = {one.id: one for one in trainset}, {}
    traces = asking.traces(before, trainset, "answering training questions")
    pools = of_forms(program, traces, options.threshold)
    # The summary gives the answer to a question of one quiz its form. Where that is in use already, it would be kept
    # without having scored better than the program as it is.
    if not had[SUMMARY].demos and not program.summarize_single:
        pools[SUMMARY] = list(_summaries([trace for trace in traces if is_right(trace, options.threshold)]))
    for name, pool in pools.items():
        if (name in had and name != SUMMARY) or name not in predictors:
            continue
        predictor, chosen = predictors[name], random.Random(f"{options.seed} {name}")
        whole = [Candidate(complete(predictor.signature, one.demo), one.kind, one.root) for one in pool]
        predictor.demos = [dspy.Example(**one.demo) for one in choose(whole, options.demos, chosen)]
        for one in whole:
            asking.origins.add(predictor.signature, one.demo, examples[one.root])
        stage = name.partition(".")[0]
        found[stage] = getattr(twin, stage)
    return found


def is_right(trace: Trace, threshold: float) -> bool:
    """Whether the metric accepts the final answer and gold answers do: half the words of a wrong name may be right."""
    record = trace.record
    if record is None or record.answer is None or trace.score < threshold:
        return False
    return agrees(record.answer, trace.example.answers, record.answer_type, record.choices)


def _well_decomposed(right: Sequence[Trace]) -> Iterator[tuple[Example, QuestionRecord]]:
    """The questions that came out right, and not by luck or in spite of their quizzes."""
    for example, record in ((trace.example, trace.record) for trace in right if trace.record is not None):
        harmed = any(one.stage in ("decompose", "references") and not one.harmless for one in record.degradations)
        count = len(record.quizzes)
        in_order = [quiz.index for quiz in record.quizzes] == [*range(1, count + 1)]
        # With a gold decomposition, an answer that is right by luck does not make another number of quizzes right.
        if in_order and not harmed and len(example.quizzes or record.quizzes) == count:
            yield example, record


def _kind_of_quizzes(example: Example, texts: Sequence[str]) -> str:
    return f"{example.answer_type}, {len(texts)} quizzes, {'chained' if '#' in ''.join(texts) else 'apart'}"


def _drafts(right: Sequence[Trace]) -> Iterator[Candidate]:
    for example, record in _well_decomposed(right):
        golds = {one.quiz.index: one for one in settled_quizzes(example, record)}
        drafts: dict[int, str] = {}
        for quiz in record.quizzes:
            remembered = _remembered(quiz, golds.get(quiz.index))
            builds = all(drafts.get(number, UNKNOWN) != UNKNOWN for number in quiz.depends_on)
            drafts[quiz.index] = remembered if remembered is not None and builds else UNKNOWN
        texts = [quiz.text for quiz in record.quizzes]
        demo = {"question": example.question, "quizzes": texts, "drafts": list(drafts.values())}
        known = sum(draft != UNKNOWN for draft in drafts.values())
        yield Candidate(demo, f"{_kind_of_quizzes(example, texts)}, {known} known", example.id)


def _remembered(quiz: QuizRecord, gold: Settled | None) -> str | None:
    """What memory says of a quiz where that is right; where nobody knows, where it was found to be known."""
    first = leader([cluster.size for cluster in quiz.clusters])
    remembered = None if first is None else quiz.clusters[first].answer
    if remembered is None or gold is None:
        return remembered if quiz.known else None
    return gold.in_form(remembered) if gold.agrees(remembered) else None


def _citations(settled: Sequence[Settled], helpful: Mapping[tuple[str, str], bool]) -> Iterator[Candidate]:
    for one in settled:
        quiz, key = one.quiz, quiz_key(str(one.quiz.resolved))
        shown = [(verdict.passage.rendered, verdict) for verdict in quiz.passages]
        stated = [
            helpful.get((key, text), passage.kept and one.stated_in(passage.text) is not False)
            for text, passage in shown
        ]
        if quiz.source == "passages" and any(stated) and one.agrees(quiz.answer or ""):
            answer = one.in_form(str(quiz.answer))
            kind = kind_of(answer, one.answer_type)
        elif shown and not any(stated) and all(one.stated_in(passage.text) is False for _, passage in shown):
            answer, kind = UNKNOWN, "not told"
        else:
            continue
        beside = [place for place, states in enumerate(stated) if not states][:_BESIDE]
        places = [place for place, states in enumerate(stated) if states or place in beside]
        cited = [number for number, place in enumerate(places, 1) if stated[place]]
        passages = {number: shown[place][0] for number, place in enumerate(places, 1)}
        yield Candidate(
            {"passages": passages, **one.asked("question"), "citations": cited, "answer": answer}, kind, one.root
        )


def _decompositions(traces: Sequence[Trace], right: Sequence[Trace]) -> list[Candidate]:
    def candidate(example: Example, texts: list[str]) -> Candidate:
        return Candidate({"question": example.question, "quizzes": texts}, _kind_of_quizzes(example, texts), example.id)

    own = [candidate(example, [quiz.text for quiz in record.quizzes]) for example, record in _well_decomposed(right)]
    kinds = {one.kind for one in own}
    gold = [candidate(trace.example, list(trace.example.quizzes)) for trace in traces if trace.example.quizzes]
    sound = [one for one in gold if not any(b.fatal for b in broken_references(numbered_quizzes(one.demo["quizzes"])))]
    return own + [one for one in sound if one.kind not in kinds]


def _summaries(right: Sequence[Trace]) -> Iterator[Candidate]:
    for trace in right:
        record, example = trace.record, trace.example
        if record is None or record.answer_source != "summary" or not record.answer or not record.explanation:
            continue
        # Two wrong employers make a right "yes": nobody should learn to conclude so.
        settled = [one for one in settled_quizzes(example, record) if one.quiz.answer is not None]
        if not all(one.agrees(str(one.quiz.answer)) for one in settled):
            continue
        answered = [f"{q.resolved} {q.answer}" for q in record.quizzes if q.resolved and q.answer and not q.abstained]
        asked = record.model_dump(include={"question", "answer_type", "choices", "explanation"})
        demo = {**asked, "answered_quizzes": answered, "answer": Settled.whole(example).in_form(record.answer)}
        yield Candidate(demo, f"{record.answer_type}, {len(answered)} quizzes", example.id)


def _tries(settled: Sequence[Settled]) -> Iterator[Candidate]:
    for one in settled:
        right = next((text for text in _samples(one) if one.agrees(text)), None)
        if right is not None:
            demo = one.asked() | {"answer": one.in_form(right)}
            yield Candidate(demo, kind_of(demo["answer"], one.answer_type), one.root)


def _samples(one: Settled) -> list[str]:
    return list(dict.fromkeys(s.text for s in one.quiz.samples if s.text and not s.abstained))


def _answers(
    program: KEQA, settled: Sequence[Settled], metric: Correctness, closed_book: ClosedBook
) -> Iterator[Candidate]:
    """Where passages state the gold answer and another was taken, the gold one: which source to believe is learned."""
    for one in settled:
        quiz = one.quiz
        if quiz.source != "passages" or quiz.answer is None:
            continue
        kept = [passage for passage in quiz.passages if passage.kept]
        shown = [] if quiz.evidence and program.select == "instead" else kept
        right = one.agrees(quiz.answer)
        # A title names what a passage is about; its text says something about it.
        stated = quiz.answer if right else _stated([*(passage.text for passage in shown), *quiz.evidence], one)
        if stated is None:
            continue
        answer = one.in_form(stated)
        without = _without_passages(one, metric, closed_book)
        if without is None or gain(one.correctness(metric, stated), without) <= 0:
            continue
        texts = [verdict.passage.rendered for verdict in shown]
        evidence = {"evidence": list(quiz.evidence), "triples": list(quiz.triples)}
        demo = {"passages": texts, **evidence, **one.asked("question"), "answer": answer}
        kind = kind_of(answer, one.answer_type)
        yield Candidate(demo, kind if right else f"{kind}, corrected", one.root)


def _stated(texts: Sequence[str], one: Settled) -> str | None:
    """The first of the gold answers that one of the texts states; nearly every text holds a yes or a no."""
    golds = one.golds if one.answer_type == "short" else ()
    return next((gold for gold in golds if any(contains_answer(text, [gold]) for text in texts)), None)


def _without_passages(one: Settled, metric: Correctness, closed_book: ClosedBook) -> float | None:
    """Correctness of A_c of Algorithm 1, from the draws that were made or else asked for; None where all failed."""
    if not one.quiz.tries:
        return closed_book(one)
    first = leader([cluster.size for cluster in one.quiz.clusters])
    if first is None:
        return None if one.quiz.samples and all(sample.error for sample in one.quiz.samples) else 0.0
    return one.correctness(metric, one.quiz.clusters[first].answer)


def _judgements(settled: Sequence[Settled]) -> list[Candidate]:
    """At most one pair of each verdict from a quiz; where tries have none, the gold answer replaces one of a pair."""
    own: list[Candidate] = []
    with_gold: list[Candidate] = []
    for one in settled:
        texts = _samples(one)
        golden = ((one.golds[0], text) for text in texts)
        for found, pairs in ((own, itertools.combinations(texts, 2)), (with_gold, golden)):
            seen: set[bool] = set()
            for first, second in pairs:
                verdict = one.same(first, second)
                if verdict is not None and verdict not in seen:
                    seen.add(verdict)
                    # The program compares a later answer with the first of a cluster, in this order.
                    demo = {"quiz": one.quiz.resolved, "first_answer": second, "second_answer": first, "same": verdict}
                    found.append(Candidate(demo, str(verdict), one.root))
    verdicts = {one.kind for one in own}
    return own + [one for one in with_gold if one.kind not in verdicts]


def _triples(settled: Sequence[Settled]) -> Iterator[Candidate]:
    for one in settled:
        if one.quiz.triples and one.quiz.evidence and one.quiz.answer and one.agrees(one.quiz.answer):
            demo = {"question": one.quiz.resolved, "triples": list(one.quiz.triples)}
            yield Candidate(demo, kind_of(one.golds[0], one.answer_type), one.root)


def _from_gold_answers(
    program: KEQA, examples: Sequence[Example], wanting: Collection[str], watch: FailureMonitor
) -> dict[str, list[Candidate]]:
    """Demonstrations that gold answers alone make, for the predictors in want of any that these can serve."""
    parts = Settled.parts if program.decompose else lambda example: [Settled.whole(example)]
    known = [one for example in examples for one in parts(example)]
    # Each is made where it is wanted: one of them searches.
    makers: dict[str, Iterator[Candidate]] = {
        "answering.answer": _from_passages(program, known, watch),
        "examination.quiz": (_golden(one, one.asked()) for one in known),
        "examination.same": _gold_pairs(known),
    }
    return {name: list(made) for name, made in makers.items() if name in wanting}


def _golden(one: Settled, asked: Mapping[str, Any]) -> Candidate:
    return Candidate({**asked, "answer": one.golds[0]}, kind_of(one.golds[0], one.answer_type), one.root)


def _from_passages(program: KEQA, known: Sequence[Settled], watch: FailureMonitor) -> Iterator[Candidate]:
    """Gold answers with the first passage found for the quiz whose text states them."""
    retriever = program.retriever
    short = [one for one in known if one.answer_type == "short"][:_ENOUGH]
    for one in short if retriever is not None else ():
        try:
            passages = [hit.passage for hit in retriever.search(one.quiz.resolved, program.top_k)]
        except RetrievalError as error:
            watch.outcome(type(error).__name__, str(error))
            continue
        watch.outcome()
        # A title names what a passage is about; its text says something about it.
        telling = next((passage for passage in passages if one.stated_in(passage.text)), None)
        if telling is not None:
            yield _golden(one, {"passages": [telling.rendered], **one.asked("question")})


def _gold_pairs(known: Sequence[Settled]) -> Iterator[Candidate]:
    """A gold answer beside an alias of it, and beside the gold answer of another quiz."""
    short = [one for one in known if one.answer_type == "short"]
    for place, one in enumerate(short):
        gold, other = one.golds[0], short[place - 1].golds[0]
        alias = next((alias for alias in one.golds[1:] if not same_answer(gold, alias)), None)
        pairs = [(alias, True)] if alias is not None else []
        if not agrees(other, one.golds):
            pairs.append((other, False))
        for answer, same in pairs:
            demo = {"quiz": one.quiz.resolved, "first_answer": gold, "second_answer": answer, "same": same}
            yield Candidate(demo, str(same), one.root)


def _kind(signature: Any, demo: Mapping[str, Any]) -> str:
    parts = [str(demo[name]) for name, field in signature.output_fields.items() if is_verdict(field)]
    parts += [f"{len(demo[name])} {name}" for name in _SO_FAR if name in demo]
    if "answer" in signature.output_fields:
        parts.append(kind_of(str(demo["answer"]), str(demo.get("answer_type", "short"))))
    return ", ".join(parts)
