// Steps of a Restate handler: a service on the given port that responds with the seconds.
import * as restate from "@restatedev/restate-sdk";

// The SDK requires Node 22; with this function it also runs on Node 20.
Promise.withResolvers ??= function () {
  const parts = {};
  parts.promise = new this((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

const port = Number(process.argv[2]);
const steps = restate.service({
  name: "steps",
  handlers: {
    work: async (ctx, count) => {
      const started = performance.now();
      for (let number = 0; number < count; number += 1) {
        await ctx.run(`step ${number}`, () => "x".repeat(200));
      }
      return (performance.now() - started) / 1000;
    },
  },
});
restate.serve({ services: [steps], port }).then(() => console.log("listening"));
