"use strict";
// The same module as for `import`, so that a class is one class however it was loaded; Node 20.19 and 22.12 load it.
module.exports = require("./index.js");
