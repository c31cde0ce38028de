const told = pageData().stories || [pageData()];
document.getElementById("main").append(...told.map((one) => story(one)));
