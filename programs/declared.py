"""The settings of KEQA, each declared here and nowhere else; what other methods have is declared in their own modules.

From these declarations come the arguments and attributes of a program, what is saved of it and how that is checked
(`keqa.programs.settings`), the options of the command line and of ``keqa.toml``, and the values that compiling tries.
Nothing here takes long to import, so that a command's help can be made of it.
"""

import functools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from keqa.programs.arguments import (
    CHOOSER,
    GATE,
    SIMILARITY,
    Characters,
    Count,
    Further,
    Seed,
    Steps,
    Temperature,
    Threshold,
    TopK,
    TopP,
    Tries,
    Word,
    Workers,
)


@dataclass(frozen=True)
class About:
    """What else is said of a setting where it is declared.

    Without `option`, which says what its option on the command line is for, it has none; a switch that is on by default
    has ``--no-NAME``, and one that compiling may have set (`tuned`) says on as well as off. `shown` is the default in
    the help, `kind` what the option takes where that is less, `tried` what compiling tries besides the own value.
    """

    option: str = ""
    shown: str | None = None
    kind: Any = None
    tuned: bool = False
    tried: tuple[Any, ...] = ()


_OWN = "of ask, chat and serve over an index of your own"


def _switch(option: str, own: str = "") -> About:
    return About(option, f"as compiled, or off{own and f'; {_OWN}, {own}'}", tuned=True, tried=(False, True))


WaysOut = Literal["say", "guess", "raise"]
"""What a program does where the documents do not say what was asked: says so, answers as its paper does, or raises."""

Style = Literal["short", "sentence", "report", "list", "table"]
"""How a question is answered: in a few words, or by a text with citations of the passages that carry it."""

WantedStyle = Literal["auto", Style]
"""The same, or as the question asks for it."""

Way = Literal["draft", "reading", "quizzes"]
"""What settles a question: an answer from memory alone, one search and its reading, or taking it apart."""

Settle = Literal[Way, "cascade"]
"""How a question is settled: in one of these ways, or from one to the next."""

OnNothingHelpful = Literal["largest_cluster", "closed_book", "top_passage"]
Select = Literal["beside", "instead"]


class CommonSettings:
    """The settings that every method has."""

    max_question_chars: Characters = 8000
    """Longer questions are refused."""
    demonstrations: Annotated[
        bool,
        About(
            "Show no fixed demonstrations: four a prompt, for any model but the one that ships, where none are learned."
        ),
    ] = True
    """Whether predictors that learned none show the fixed demonstrations that ship; a judge of utility with a reference
    is shown that one's only."""
    workers: Workers = 16
    """How many calls to language models and retriever may be in flight, over all questions; the constructor's alone."""


class DeclaredKeqa(CommonSettings):
    """The settings of KEQA; the defaults are the paper's."""

    tries: Annotated[Tries, About("Closed-book samples of the answer to a quiz (N_c).", "5", tried=(3, 5))] = 5
    threshold: Annotated[
        Fraction,
        Threshold,
        About(
            "Share of equal samples from which a quiz is known: .8 or 4/5.",
            "0.8",
            kind=str,
            tried=("0.4", "0.6", "0.8", "1"),
        ),
    ] = Fraction(4, 5)
    """α of KEQA's vote gate, as an exact fraction: 0.8, "0.8" and "4/5" are the same. It takes the place of any gate,
    and another gate that of it."""
    temperature: Annotated[Temperature, About("Temperature of the samples.", "1.0", tried=(0.7, 1.0))] = 1.0
    top_k: Annotated[TopK, About("Passages retrieved for a quiz.", "10, or the method's own", tried=(2, 3, 5, 10))] = 10
    settle: Annotated[
        Settle,
        About(
            "Answer from memory alone (draft), by one search and one reading, or by quizzes; cascade goes from one to "
            "the next where --chooser finds it worth the cost; without one, to quizzes where reading gives no answer.",
            f"quizzes; {_OWN}, cascade",
            tried=("draft", "reading", "quizzes", "cascade"),
        ),
    ] = "quizzes"
    """Where guesses are not wanted, ``draft`` reads as well, and a cascade begins with reading: a memory is no answer
    that documents give. Without a chooser it always does, and takes apart what the passages do not answer."""
    chooser: Annotated[
        Annotated[Any, CHOOSER] | None,
        About("Of --settle cascade: a file that keqa boundary train --kind chooser wrote.", kind=Path),
    ] = None
    """Says of a cascade how probably each answer is right, and what the next step is worth; it has no effect elsewhere.
    """
    arbiter: Annotated[
        Annotated[Any, CHOOSER] | None,
        About("Such a file, by which a quiz keeps its answer from memory or the one from passages.", kind=Path),
    ] = None
    """Without one, passages are believed. Where guesses are not wanted, they always are."""
    decompose: Annotated[bool, About("Take the question as its only quiz, for questions of one hop.")] = True
    examine: Annotated[bool, About("Retrieve for every quiz.")] = True
    look_first: Annotated[
        bool, About("Over documents of your own, ask the memory also for what they speak of, before they are searched.")
    ] = True
    """Unless guesses are wanted, search for a quiz before it is examined, and read it from the passages without an
    examination where its names, numbers or words stand in them: what somebody's documents speak of, a language model
    only seems to know. It has no effect beside a gate of your own, such as a boundary model."""
    pick: Annotated[
        bool,
        About(
            "Read only the passages that are judged to help, or cited; without it, all that were found.",
            f"on, or as compiled; {_OWN}, off",
            tuned=True,
            tried=(True, False),
        ),
    ] = True
    select: Annotated[
        bool | Select,
        About("Put the sentences closest to triples that the question needs beside the passages (KS-LLM).", kind=bool),
    ] = False
    """KS-LLM's evidence: ``beside`` the passages (True is the same) or ``instead`` of them."""
    listwise: Annotated[bool, _switch("Judge the passages of a quiz in one call, and not each by itself.")] = False
    """Those that the reply says nothing of are judged by themselves."""
    draft: Annotated[
        bool,
        _switch("Write a draft answer with each quiz, in the same call, and examine the quiz by it alone.", "on"),
    ] = False
    """A quiz is known where its draft's probability, or what the gate makes of that draft, reaches the threshold; where
    the LM gives no probabilities, wherever it gives a draft. It has no effect without decomposition or examination."""
    cite: Annotated[
        bool, _switch("Read the passages of a quiz and cite those that state its answer in one call, and judge none.")
    ] = False
    """Those that are cited are kept. It has no effect without picking, nor beside `select` or `extract_sentences`."""
    summarize_single: Annotated[bool, _switch("Summarize a question that is its own only quiz, too.")] = False
    """As the printed algorithm does and the authors' code does not: the summary is what gives the answer its form.
    Without decomposition it has no effect, nor in a cascade, which has read the question before."""
    summarize_known: Annotated[
        bool,
        _switch("Where a quiz cannot be asked, summarize the answered ones before the question is asked by itself."),
    ] = False
    read_together: Annotated[
        bool,
        _switch(
            "Read a question that was taken apart over what was found for it and all its quizzes, for its answer, and "
            "summarize theirs only where that finds no answer or memory answered one.",
            "on",
        ),
    ] = False
    """The 8 best of the 3 best passages of each search are read. Where guesses are not wanted, all quizzes must have an
    answer before."""
    reason: Annotated[
        bool, _switch("Write a chain of thought over the passages before the answer, in the same call.")
    ] = False
    """The explanation of a question that is answered by one reading is then that thought. It has no effect where
    guesses are not wanted, nor beside `select`, `extract_sentences` or what cites."""
    expand: Annotated[
        Further,
        About(
            "Further passages to read for the whole question, found with the best one beside it; 0: none.",
            f"as compiled, or 0; {_OWN}, 3",
            tried=(0, 3),
        ),
    ] = 0
    """Pseudo-relevance feedback: a second search for the question and the beginning of the best passage of the first
    finds what the passage leads to, such as the birthplace of a director whom only it names. Over one's own documents,
    where what was found does not tell the answer, nor speaks of it, other words for it are searched as well."""
    prefer_reliable: Annotated[
        bool,
        _switch(
            "Leave out passages of sources that seldom helped, or as old as such, by the labels of the reference, "
            "where others were judged helpful as well."
        ),
    ] = False
    unanswered: Annotated[
        WaysOut | None,
        About(
            "Where the documents do not say it: say so, or guess, with a mark.",
            "say over an index of your own, guess over the testbed and in comparisons",
            kind=Literal["say", "guess"],
        ),
    ] = None
    """``raise`` is for a `keqa.NotInDocumentsError`. By default ``say`` over documents of one's own, and ``guess`` over
    those of the testbed or a benchmark, and without a retriever."""
    style: Annotated[
        WantedStyle | None,
        About(
            "How it answers: short, or sentence, report, list or table, with citations; auto goes by the question.",
            "auto over an index of your own, short over the testbed and in comparisons",
            kind=WantedStyle,
        ),
    ] = None
    """``auto`` takes a question that begins like “Summarise”, “List all” or “Compare” at its word, and answers any
    other in short. A question with choices, or for yes or no, is answered in short."""
    max_passages: Annotated[Count, About("Passages to read for a list, at most.", "50")] = 50
    list_step: Annotated[
        Count | None,
        About("Passages that one call lists from; small models confuse several.", "as many as --top-k", tried=(1, 3)),
    ] = None
    mark_unsupported: Annotated[
        bool, About("Mark sentences of a written answer that their passages do not carry, instead of leaving them out.")
    ] = False
    top_p: Annotated[TopP | None, About(tried=(None, 0.9))] = None
    """Of the tries, where set."""
    gate: Annotated[Any, GATE] | None = None
    """Decides whether a quiz is known, instead of KEQA's vote."""
    evidence_sentences: Count = 2
    """How many sentences `select` takes."""
    similarity: Annotated[Any, SIMILARITY] | Word | None = None
    """Compares triples, or a quiz, with sentences: a function, or the name of an embedding model; else by words."""
    extract_sentences: Count | None = None
    """Cut each passage that is kept down to so many sentences closest to the quiz (the paper's KEQA w SE)."""
    on_nothing_helpful: Annotated[OnNothingHelpful, About(tried=("largest_cluster", "closed_book"))] = "largest_cluster"
    """What answers where no passage is kept: the largest cluster of tries, a closed-book answer, or the top passage.
    Without a cluster it is a closed-book answer. It is a guess, and only where `unanswered` allows guesses."""
    max_quizzes: Steps = 8
    """Further quizzes of a decomposition are left out."""
    seed: Seed = 0
    """Another seed draws other tries."""


@functools.cache
def about(declared: type[Any]) -> dict[str, tuple[Any, About]]:
    """By setting, its annotation and what is said of it; those that all methods have come last."""
    common = vars(CommonSettings)["__annotations__"]
    hints = get_type_hints(declared, include_extras=True)
    found = {
        name: next((one for one in get_args(hint) if isinstance(one, About)), About()) for name, hint in hints.items()
    }
    return {name: (hints[name], found[name]) for name in sorted(hints, key=lambda name: name in common)}
