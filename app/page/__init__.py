"""Pages for a browser: a question's story as it settles, a story as a file of its own, and run files side by side.

A page is one document of plain HTML, CSS and JavaScript, without a build step, that loads nothing from anywhere. Text
from questions, passages and answers is set as text and never read as HTML.
"""
