// The way to the end of the thread where it is out of sight. Whoever has taken it follows what is written on, until he
// scrolls up again or asks anew.
import { useEffect, useRef, useState } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";

// What stands below the last answer is no reason to leave it.
const NEAR_PX = 120;

const threadOf = (): HTMLElement | null => document.getElementById("thread");
const isFar = (thread: HTMLElement): boolean => thread.scrollHeight - thread.scrollTop - thread.clientHeight > NEAR_PX;

export function ToEnd() {
  const { session } = usePage();
  const last = useStore(session).turns.at(-1);
  const [isShown, setShown] = useState(false);
  const isFollowing = useRef(false);
  useEffect(() => {
    const thread = threadOf();
    if (!thread) return;
    isFollowing.current = false;
    let top = thread.scrollTop;
    const look = (): void => {
      // A draft that is taken back moves the place as well, and leaves it at the end.
      if (thread.scrollTop < top && isFar(thread)) isFollowing.current = false;
      top = thread.scrollTop;
      setShown(isFar(thread));
    };
    const grow = (): void => {
      if (isFollowing.current) thread.scrollTop = thread.scrollHeight;
      look();
    };
    const watch = new ResizeObserver(grow);
    const turn = [...thread.querySelectorAll(".turn")].at(-1);
    if (turn) watch.observe(turn);
    thread.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      thread.removeEventListener("scroll", look);
    };
  }, [last]);
  const go = (): void => {
    const thread = threadOf();
    if (!thread) return;
    isFollowing.current = true;
    thread.scrollTop = thread.scrollHeight;
    // The button goes, and the keys of the thread go on from here.
    thread.focus({ preventScroll: true });
  };
  if (!isShown || !last) return null;
  return <div className="to-end"><button id="to-end" type="button" aria-keyshortcuts="End" onClick={go}>{`↓ ${word("toEnd")}`}</button></div>;
}
