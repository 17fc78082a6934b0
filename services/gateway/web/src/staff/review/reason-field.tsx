// Where the reviewer says why.
import { type KeyboardEventHandler, useId } from "react";

import { say } from "../words";

const MAX_CHARS = 2_000;

interface Props {
  value: string;
  onChange: (text: string) => void;
  onKeyDown: KeyboardEventHandler<HTMLTextAreaElement>;
}

export function ReasonField({ value, onChange, onKeyDown }: Props) {
  const id = useId();
  return (
    <div className="reason">
      <label htmlFor={id}>{say("reason")}</label>
      <textarea id={id} name="reason" rows={2} maxLength={MAX_CHARS} placeholder={say("reasonHint")} value={value} onChange={(event) => onChange(event.target.value)} onKeyDown={onKeyDown} />
    </div>
  );
}
