// Reads a file of the page that is first wanted late, perhaps in an outage: again until the gateway has it or refuses it.
import { pause, report } from "../base/reach";
import { pauseAfter } from "../base/queries";
import { isReached } from "./connection";

// A gateway that restarts refuses once or twice; one that goes on has the files of another version.
const REFUSALS = 2;

export async function readAgain<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 0, refusals = 0; ; tries += 1) {
    try {
      return await read();
    } catch (thrown) {
      if (await isReached()) refusals += 1;
      else report("missed");
      if (refusals > REFUSALS) throw thrown;
      await pause(pauseAfter(tries));
    }
  }
}
