const stories = pageData().stories || [pageData()];
document.getElementById("main").append(...stories.map((one) => story(one)));
