"""Every use of DSPy that KEQA should stand, tried one by one: OK, or what fails.

    python examples/dspy_compatibility.py

No network and no key is needed: a scripted language model answers, and where a model in this process matters the one
that comes with KEQA. Each row is a short program to copy from.
"""

import asyncio
import contextlib
import copy
import io
import json
import logging
import re
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy
import numpy as np
from dspy.lm15 import Message, Request, Response, Usage, response_to_events
from dspy.streaming.streamify import streaming_response
from dspy.utils import DummyLM
from dspy.utils.callback import BaseCallback

import keqa
from keqa.data.question import question_digest
from keqa.programs.reference.utility_reference import Entry, UtilityReference

QUESTION = "In which country does Ann live?"
TEXTS = {"Ann": "Ann lives in Bergen.", "Bergen": "Bergen is a city in Norway.", "Rome": "Rome is a city in Italy."}
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with |\Z)", re.DOTALL)


class Engine:
    """A language model by rules: it knows where Ann lives, and guesses in which country that is."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.seeds: list[object] = []

    def __deepcopy__(self, memo: dict) -> "Engine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer in the fields and the form that are asked for."""
        last = request.messages[-1].text or ""
        self.prompts.append("\n".join([str(request.system), *(message.text or "" for message in request.messages)]))
        self.seeds.append(request.config.seed)
        form = last.split("Respond with")[-1]
        names = [name for name in re.findall(r"\[\[ ## (\w+) ## \]\]|`<?(\w+)>?`|<(\w+)>", form)]
        wanted = dict.fromkeys(name for found in names for name in found if name and name not in ("completed", "XML"))
        values = {name: self.value(name, last, request) for name in wanted}
        if "JSON object" in form:
            text = json.dumps(values)
        elif "[[ ## " in form:
            text = "\n\n".join(f"[[ ## {name} ## ]]\n{_written(value)}" for name, value in values.items())
        elif values:
            text = "\n".join(f"<{name}>\n{_written(value)}\n</{name}>" for name, value in values.items())
        else:
            text = "```\nAnswer in as few words as you can.\n```"
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(
            id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage
        )

    def stream(self, request: Request) -> Iterator[object]:
        """Answer in pieces."""
        yield from response_to_events(self.complete(request))

    def value(self, name: str, prompt: str, request: Request) -> object:
        """The value of a field."""
        quizzes = ["In which city does Ann live?", "In which country is #1?"]
        known = {"quizzes": quizzes, "same": False, "helpful": "Norway" in prompt.split("quiz ## ]]")[0]}
        if name == "answer" and "answered_quizzes" not in prompt and "passages" not in prompt:
            return "Bergen" if "which city" in prompt else f"Land {request.config.seed}"
        return known.get(name, "Norway" if name == "answer" else "Answer in as few words as you can.")

    def close(self) -> None:
        """Nothing to close."""


class AsyncEngine:
    """The same, awaited."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict) -> "AsyncEngine":
        return self

    async def complete(self, request: Request) -> Response:
        """Answer."""
        return self.engine.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[object]:
        """Answer in pieces."""
        for event in response_to_events(self.engine.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class Module(dspy.Module):
    """A program of a user's, of which KEQA is a part."""

    def __init__(self, ask: keqa.KEQA) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, question: str) -> dspy.Prediction:
        """Ask."""
        return self.ask(question=question)


class Spans(BaseCallback):
    """What a tracing package would draw."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self.lms = 0

    def on_tool_start(self, call_id: str, instance: dspy.Tool, inputs: dict) -> None:
        """Note a call of a tool."""
        self.tools.append(instance.name)

    def on_lm_start(self, call_id: str, instance: dspy.LM, inputs: dict) -> None:
        """Count a call of a language model."""
        self.lms += 1


def search(query: str, k: int) -> list[dict[str, str]]:
    """Passages with a word of the query; an own retriever can be as short as this."""
    return [{"id": key, "title": key, "text": text} for key, text in TEXTS.items() if key in query][:k]


def language_model(name: str = "scripted/rules") -> dspy.LM:
    """A language model of DSPy's over the rules."""
    engine = Engine()
    return dspy.LM(name, engine=engine, async_engine=AsyncEngine(engine), cache=False, temperature=0.0)


def program(lm: dspy.LM | None = None, **settings: object) -> keqa.KEQA:
    """KEQA over the three passages."""
    made = keqa.KEQA(search, **settings)
    made.set_lm(lm or language_model())
    return made


def roles() -> keqa.Roles:
    """Three language models, one a role."""
    return keqa.Roles(*(language_model(f"scripted/{name}") for name in ("task", "consistency", "utility")))


def train(count: int = 4) -> list[dspy.Example]:
    """Questions with gold answers; they differ in spaces only."""
    return [
        dspy.Example(question=QUESTION.replace(" ", " " * place, 1), answer="Norway").with_inputs("question")
        for place in range(1, count + 1)
    ]


def right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    """A metric as DSPy's are."""
    return bool(prediction.answer == example.answer)


def expect(found: object, wanted: object) -> None:
    """Fail where something else came out."""
    if found != wanted:
        raise AssertionError(f"{found!r:.60} instead of {wanted!r:.60}")


def refuses(call: Callable[..., object], *arguments: object) -> None:
    """Fail where something is not refused in one line."""
    try:
        call(*arguments)
    except keqa.ConfigurationError as error:
        expect("\n" in str(error), False)
    else:
        raise AssertionError("accepted")


# What works for any module.


def configure_and_context() -> None:
    """configure, context."""
    with dspy.context(lm=language_model()):
        expect(keqa.KEQA(search)(question=QUESTION).answer, "Norway")


def nested_with_its_predictors() -> None:
    """Part of a module, named_predictors."""
    names = dict(Module(program()).named_predictors())
    expect("ask.answering.answer" in names, True)


def evaluate() -> None:
    """Evaluate."""
    expect(dspy.Evaluate(devset=train(), metric=right, num_threads=2)(program()).score, 100.0)


def parallel_and_batch() -> None:
    """Parallel, batch."""
    found = dspy.Parallel(num_threads=2)([(program(), one.inputs()) for one in train(2)])
    expect([one.answer for one in [*found, *program().batch(train(2))]], ["Norway"] * 4)


def acall_and_asyncify() -> None:
    """acall, asyncify, calls inside a running loop."""

    async def both() -> list[str]:
        asked = program()
        inside = asked(question=QUESTION).answer
        return [inside, (await asked.acall(question=QUESTION)).answer, (await dspy.asyncify(asked)(QUESTION)).answer]

    expect(asyncio.run(both()), ["Norway"] * 3)


def usage_callbacks_and_history() -> None:
    """track_usage, callbacks, inspect_history."""
    spans = Spans()
    with dspy.context(track_usage=True, callbacks=[spans]):
        prediction = program()(question=QUESTION)
    expect(spans.lms, prediction.record.cost.lm_requests)
    expect(bool(prediction.get_lm_usage()), True)
    dspy.inspect_history(n=1, file=io.StringIO())


def adapters() -> None:
    """Chat, JSON and XML adapters."""
    for adapter in (dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()):
        with dspy.context(adapter=adapter):
            expect(program()(question=QUESTION).answer, "Norway")


def deepcopy_and_reset_copy() -> None:
    """deepcopy, reset_copy."""
    asked = program()
    expect([one(question=QUESTION).answer for one in (copy.deepcopy(asked), asked.reset_copy())], ["Norway"] * 2)


def optimizer(name: str, make: Callable[[dspy.LM], dspy.Module]) -> Callable[[], None]:
    """A row for one of DSPy's optimizers, run by itself."""

    def row() -> None:
        lm = language_model()
        with dspy.context(lm=lm):
            expect(make(lm)(question=QUESTION).answer, "Norway")

    row.__doc__ = name
    return row


def _bootstrap(lm: dspy.LM) -> dspy.Module:
    return dspy.BootstrapFewShot(keqa.optimizer_metric(), max_labeled_demos=0).compile(program(lm), trainset=train())


def _random_search(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.BootstrapFewShotWithRandomSearch(
        keqa.optimizer_metric(), max_labeled_demos=0, num_candidate_programs=1, num_threads=1
    )
    return chosen.compile(program(lm), trainset=train())


def _gepa(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.GEPA(keqa.optimizer_metric(), reflection_lm=lm, max_metric_calls=12, num_threads=1)
    return chosen.compile(program(lm), trainset=train(), valset=train())


def _simba(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.SIMBA(metric=right, bsize=2, num_candidates=2, max_steps=1, num_threads=1)
    return chosen.compile(program(lm), trainset=train())


def _copro(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.COPRO(prompt_model=lm, metric=right, breadth=2, depth=1)
    return chosen.compile(program(lm), trainset=train(1), eval_kwargs={"num_threads": 1, "display_progress": False})


def _mipro(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.MIPROv2(
        right, prompt_model=lm, task_model=lm, auto=None, num_candidates=2, max_labeled_demos=0, num_threads=1
    )
    return chosen.compile(program(lm), trainset=train(), valset=train(), num_trials=1, minibatch=False)


def _better_together(lm: dspy.LM) -> dspy.Module:
    chosen = dspy.BetterTogether(right, p=dspy.BootstrapFewShot(right, max_labeled_demos=0))
    return chosen.compile(program(lm), trainset=train(), valset=train(), strategy="p")


def _knn(lm: dspy.LM) -> dspy.Module:
    vectors = dspy.Embedder(lambda texts: np.ones((len(texts), 2)), caching=False)
    chosen = dspy.KNNFewShot(k=1, trainset=train(2), vectorizer=vectors, metric=right, max_labeled_demos=0)
    return chosen.compile(program(lm))


def cache() -> None:
    """Disk cache."""
    asked = program(language_model().copy(cache=True))
    asked(question=QUESTION)
    expect(asked(question=QUESTION).record.cost.calls, 0)


# What used to break.


def nested_with_its_own_lms() -> None:
    """Nested with its own LMs, compiled, no global LM."""
    nested = Module(keqa.KEQA(search, lms=roles()))
    learned = dspy.BootstrapFewShot(right, max_labeled_demos=0).compile(nested, trainset=train())
    expect(learned(question=QUESTION).answer, "Norway")


def parent_save_and_load() -> None:
    """parent.save, parent.load."""
    with tempfile.TemporaryDirectory() as folder:
        Module(keqa.KEQA(search, lms=roles())).save(f"{folder}/state.json")
        loaded = Module(keqa.KEQA(search, lms=roles()))
        loaded.load(f"{folder}/state.json")
    expect(loaded(question=QUESTION).answer, "Norway")


def load_keeps_the_reference() -> None:
    """program.load keeps reference and settings."""
    saved = program(reference=UtilityReference().fit([Entry("q", "Who?", "It is Ann.", True)]), top_k=3)
    loaded = program()
    with tempfile.TemporaryDirectory() as folder:
        saved.save(f"{folder}/state.json")
        loaded.load(f"{folder}/state.json")
    expect((loaded.top_k, len(getattr(loaded.picking.reference, "entries", ()))), (3, 1))


def save_program() -> None:
    """save_program."""

    class Index:
        """As an open index, it holds what cannot be pickled."""

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def search(self, query: str, k: int = 10) -> list[keqa.Hit]:
            return []

    with tempfile.TemporaryDirectory() as folder:
        keqa.KEQA(Index()).save(folder, save_program=True)
        dspy.load(folder, allow_pickle=True)


def _streamed(asked: dspy.Module, **how: bool) -> None:
    async def last() -> object:
        *_, found = [one async for one in dspy.streamify(asked, **how)(question=QUESTION)]
        return found

    expect(isinstance(asyncio.run(last()), dspy.Prediction), True)


def streamify() -> None:
    """Streamify."""
    _streamed(program())


def streamify_async_with_a_local_lm() -> None:
    """streamify, async, local LM."""
    asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
    _streamed(asked, is_async_program=True)


def majority() -> None:
    """majority, Ensemble."""
    prediction = program()(question=QUESTION)
    expect(dspy.majority([prediction, prediction]).answer, "Norway")
    joined = dspy.Ensemble(reduce_fn=dspy.majority).compile([program(), program()])
    expect(joined(question=QUESTION).answer, "Norway")


def serializer_of_streaming() -> None:
    """The serializer of streaming."""
    prediction = program()(question=QUESTION)

    async def written() -> list[str]:
        async def streamer() -> object:
            yield prediction

        return [line async for line in streaming_response(streamer())]

    expect(json.loads(asyncio.run(written())[0][6:])["prediction"]["sources"][0]["title"], "Bergen")


def best_of_n_and_refine() -> None:
    """BestOfN, Refine."""
    for kind in (dspy.BestOfN, dspy.Refine):
        best = kind(program(), 2, lambda arguments, prediction: float(prediction.answer == "Norway"), 1.0)
        expect(best(question=QUESTION).record.answer, "Norway")


def best_of_n_and_refine_in_a_parent() -> None:
    """BestOfN, Refine over a module with a program in it."""
    for kind in (dspy.BestOfN, dspy.Refine):
        lm, drawn = language_model(), []

        def reward(arguments: dict, prediction: dspy.Prediction, drawn: list = drawn, lm: dspy.LM = lm) -> float:
            drawn.append({str(seed) for seed in lm.engine.seeds})
            return 0.0

        with dspy.context(lm=lm):
            answered = kind(Module(keqa.KEQA(search)), 2, reward, 1.0)(question=QUESTION)
        expect((answered.answer, drawn[0] < drawn[1]), ("Norway", True))


def best_of_n_with_an_lm_a_role() -> None:
    """get_lm and BestOfN with an LM a role."""
    asked = keqa.KEQA(search, lms=roles())
    expect(asked.get_lm().model, "scripted/task")
    expect(dspy.BestOfN(asked, 2, lambda arguments, prediction: 1.0, 1.0)(question=QUESTION).answer, "Norway")


def rollouts_differ() -> None:
    """Rollouts differ."""
    drawn = []
    for rollout in (0, 1):
        lm = language_model()
        program(lm.copy(rollout_id=rollout, temperature=1.0))(question=QUESTION)
        drawn.append(sorted({str(seed) for seed in lm.engine.seeds}))
    expect(drawn[0] == drawn[1], False)


def wrong_retrievers_are_refused() -> None:
    """Wrong retrievers are refused."""
    for wrong in ("index", dspy.LM("openai/none"), lambda: [], [], dspy.Predict("question -> answer")):
        refuses(keqa.KEQA, wrong)


def retrievers_of_other_makes() -> None:
    """Retrievers of DSPy's and of other makes, functions."""

    def module(query: str, k: int) -> list[dspy.Prediction]:
        return [dspy.Prediction(long_text=one["text"]) for one in search(query, k)]

    class LangChain:
        def invoke(self, query: str) -> list[object]:
            return [type("Document", (), {"page_content": one["text"], "metadata": {}})() for one in search(query, 9)]

    with dspy.context(rm=module):
        for retriever in (dspy.Retrieve(k=2), LangChain()):
            asked = keqa.KEQA(retriever)
            asked.set_lm(language_model())
            expect(asked(question=QUESTION).sources[0]["text"], TEXTS["Bergen"])


def faults_in_a_retriever_surface() -> None:
    """Faults in a retriever surface."""
    asked = keqa.KEQA(lambda query: [].nothing)
    asked.set_lm(language_model())
    try:
        asked(question=QUESTION)
    except AttributeError:
        return
    raise AssertionError("taken for an outage")


def no_question_is_shown_its_own_labels() -> None:
    """No optimizer shows a question its own labels."""
    lm, (example,) = language_model(), train(1)
    label = Entry("q", "In which country is Bergen?", "own label", True, question_digest(example.question))
    asked = program(lm, reference=UtilityReference(least=0).fit([label]))
    dspy.BootstrapFewShot(right, max_labeled_demos=0).compile(asked, trainset=[example])
    expect(any("own label" in prompt for prompt in lm.engine.prompts), False)


def bootstrap_finetune() -> None:
    """BootstrapFinetune."""
    with tempfile.TemporaryDirectory() as folder:
        kwargs = {"folder": f"{folder}/adapter", "epochs": 1, "rank": 2}
        asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
        chosen = dspy.BootstrapFinetune(metric=None, num_threads=1, train_kwargs=kwargs)
        learned = chosen.compile(asked, trainset=train(1))
    expect(learned.get_lm().model.startswith("transformers/adapter@"), True)
    expect(isinstance(learned(question=QUESTION).answer, str), True)


def better_together_with_weights() -> None:
    """BetterTogether (prompts, then weights)."""
    with tempfile.TemporaryDirectory() as folder:
        kwargs = {"folder": f"{folder}/adapter", "epochs": 1, "rank": 2}
        asked = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"))
        chosen = dspy.BetterTogether(
            right,
            p=dspy.BootstrapFewShot(right, max_labeled_demos=0),
            w=dspy.BootstrapFinetune(num_threads=1, train_kwargs=kwargs),
        )
        learned = chosen.compile(asked, trainset=train(2), valset=[], strategy="p -> w")
    expect(learned.get_lm().model.startswith("transformers/adapter@"), True)


def history() -> None:
    """dspy.History."""
    turns = dspy.History(messages=[{"question": "Where does Ann live?", "answer": "Bergen"}])
    program()(question="In which country is that?", history=turns)


def as_tool() -> None:
    """as_tool, ReAct."""
    tool = program().as_tool()
    expect((list(tool.args), tool(question=QUESTION).splitlines()[0]), (["question"], "Norway"))
    turns = [
        {"next_thought": "ask", "next_tool_name": tool.name, "next_tool_args": json.dumps({"question": QUESTION})},
        {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": "{}"},
        {"reasoning": "so it says", "answer": "Norway"},
    ]
    with dspy.context(lm=DummyLM(turns)):
        agent = dspy.ReAct("question -> answer", tools=[tool])
        expect(agent(question=QUESTION).trajectory["observation_0"].splitlines()[0], "Norway")


def compile_with_an_optimizer_and_a_metric() -> None:
    """keqa.compile: optimizer objects, metrics, a result to ask."""
    compiled = keqa.compile(
        program(), train(), optimizer=dspy.BootstrapFewShot(), metric=right, reference=False, tuning=False
    )
    expect(compiled(question=QUESTION).answer, "Norway")
    expect(
        [name for name, _ in Module(compiled).named_predictors()], [f"ask.{n}" for n, _ in compiled.named_predictors()]
    )


def compile_in_a_parent() -> None:
    """keqa.compile in a parent."""
    keqa.compile(Module(program()), train(), metric=right, reference=False, tuning=False)


def searches_in_traces() -> None:
    """Searches in traces."""
    spans = Spans()
    with dspy.context(callbacks=[spans]):
        program()(question=QUESTION)
    expect(spans.tools, ["search"])


def a_plain_lm_draws_in_one_request() -> None:
    """A plain dspy.LM draws samples in one request."""
    asked: list[int] = []

    class Server(BaseHTTPRequestHandler):
        """A server of OpenAI's interface."""

        def do_POST(self) -> None:
            """Answer as often as is asked for."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body.get("n") or 1)
            message = {"role": "assistant", "content": "[[ ## answer ## ]]\nBergen\n\n[[ ## completed ## ]]"}
            choices = [{"index": n, "message": message, "finish_reason": "stop"} for n in range(asked[-1])]
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
            data = json.dumps(reply | {"usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *line: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        lm = dspy.LM("openai/m", api_base=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", cache=False)
        expect(program(lm, decompose=False)(question=QUESTION).answer, "Bergen")
        server.shutdown()
    expect(asked, [4])


ROWS = [
    configure_and_context,
    nested_with_its_predictors,
    evaluate,
    parallel_and_batch,
    acall_and_asyncify,
    usage_callbacks_and_history,
    cache,
    adapters,
    deepcopy_and_reset_copy,
    optimizer("BootstrapFewShot", _bootstrap),
    optimizer("BootstrapFewShotWithRandomSearch", _random_search),
    optimizer("GEPA", _gepa),
    optimizer("MIPROv2", _mipro),
    optimizer("SIMBA", _simba),
    optimizer("COPRO", _copro),
    optimizer("KNNFewShot", _knn),
    optimizer("BetterTogether (prompts)", _better_together),
    nested_with_its_own_lms,
    parent_save_and_load,
    load_keeps_the_reference,
    save_program,
    streamify,
    streamify_async_with_a_local_lm,
    majority,
    serializer_of_streaming,
    best_of_n_and_refine,
    best_of_n_and_refine_in_a_parent,
    best_of_n_with_an_lm_a_role,
    rollouts_differ,
    wrong_retrievers_are_refused,
    retrievers_of_other_makes,
    faults_in_a_retriever_surface,
    no_question_is_shown_its_own_labels,
    bootstrap_finetune,
    better_together_with_weights,
    history,
    as_tool,
    compile_with_an_optimizer_and_a_metric,
    compile_in_a_parent,
    searches_in_traces,
    a_plain_lm_draws_in_one_request,
]


def outcome(row: Callable[[], None]) -> str:
    """Try a use, without what optimizers print."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            row()
    except Exception as error:
        message = str(error).splitlines()[0] if str(error) else ""
        return f"{type(error).__name__}: {message}"[:120]
    return "OK"


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    print(f"DSPy {dspy.__version__}, KEQA {keqa.__version__}\n")
    with tempfile.TemporaryDirectory() as kept:
        # Nothing comes from an earlier run, and nothing is left behind.
        dspy.configure_cache(disk_cache_dir=kept)
        found = [(str(row.__doc__).rstrip("."), outcome(row)) for row in ROWS]
    for name, result in found:
        print(f"OK     {name}" if result == "OK" else f"FAILS  {name}: {result}")
    print(f"\n{sum(result == 'OK' for _, result in found)} of {len(found)} uses are OK")
