import dspy
import pytest

from keqa.testbed.rendering import CHAT_TEMPLATE, contents, conversation
from keqa.testbed.sampling import Stream
from keqa.testbed.skills import SKILLS
from keqa.testbed.testbed import Testbed


@pytest.fixture(scope="module")
def samples():
    stream = Stream(Testbed(), seed=5)
    return [stream.draw(0.5) for _ in range(300)]


@pytest.fixture(scope="module")
def tokenizer(samples):
    pytest.importorskip("transformers")
    from keqa.testbed.rendering import build_tokenizer

    return build_tokenizer(line for s in samples for line in contents(s.prompt + s.target))


@pytest.mark.slow
def test_a_prompt_has_the_same_tokens_in_training_and_in_use(samples, tokenizer):
    for sample in samples:
        parts = tokenizer(sample.prompt)["input_ids"] + tokenizer(sample.target)["input_ids"]
        assert parts == tokenizer(sample.prompt + sample.target)["input_ids"]


@pytest.mark.slow
def test_the_chat_template_renders_what_training_renders(tokenizer):
    signature = SKILLS["AnswerQuiz"].signature
    inputs = {"quiz": "Who directed The Wild Song?", "answer_type": "short", "choices": []}
    messages = dspy.ChatAdapter().format(signature, [], inputs)
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert text == conversation(signature, [], inputs)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["Alma Torwick", "déjà vu 日本 🙂", "a\nb\tc", "#1 #10 [x] «y»"])
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
