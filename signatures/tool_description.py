"""How a program is described to an agent that may use it as a tool."""

NAME = "answer_question"

DESCRIPTION = (
    "Answers a factual question in a few words, with the passages that the answer rests on. Ask one complete question "
    "that can be understood by itself."
)

QUESTION = "One complete question, such as: In which country was the author of Hamlet born?"
