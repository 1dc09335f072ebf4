/** Frames → shown one after the other until the last, a key or a press. Knows no map. */

/** frames: functions that show one frame; each stays for so many milliseconds. Resolves when it has ended or was stopped. */
export function play(frames, stay) {
  return new Promise((ended) => {
    let timer;
    let next = 0;
    const events = ["keydown", "pointerdown", "wheel"];
    const finish = () => {
      clearTimeout(timer);
      events.forEach((name) => removeEventListener(name, finish, true));
      ended();
    };
    const advance = () => {
      if (next === frames.length) return finish();
      frames[next++]();
      timer = setTimeout(advance, stay);
    };
    events.forEach((name) => addEventListener(name, finish, true));
    advance();
  });
}
