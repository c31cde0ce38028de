document.getElementById("main").append(story(pageData()));
