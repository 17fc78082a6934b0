// One choice of a dialog, with its name before it.
import { useId } from "react";

interface Props<T extends string> {
  label: string;
  value: T;
  names: readonly T[];
  nameOf: (name: T) => string;
  onChoose: (name: T) => void;
}

export function Choice<T extends string>({ label, value, names, nameOf, onChoose }: Props<T>) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChoose(event.target.value as T)}>
        {names.map((name) => <option key={name} value={name}>{nameOf(name)}</option>)}
      </select>
    </div>
  );
}
