// In what the numbers of a table are shown, and with how many decimals.
import { DropdownMenu } from "radix-ui";

import { DECIMALS, type NumberForm, SCALES, type Scale } from "../../base/format";
import { language, word } from "../../base/words";

const nameOfScale = (scale: Scale): string => word(scale === "given" ? "asGiven" : `value_${scale}`);

// What stands behind a unit; "" for values as they are given.
export const describeScale = (scale: Scale): string => (scale === "given" ? "" : nameOfScale(scale));

interface Props {
  form: NumberForm;
  // Whether a column has values for which a scale is of use.
  isReached: (scale: Scale) => boolean;
  onChoose: (form: NumberForm) => void;
}

export function NumberMenu({ form, isReached, onChoose }: Props) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild><button type="button" className="quiet more">{word("numbersMenu")}</button></DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu columns-menu" align="end" collisionPadding={8} lang={language()}>
          <Choices label={word("numberScale")} value={form.scale} names={Object.keys(SCALES) as Scale[]} nameOf={nameOfScale}
            isOffered={(scale) => scale === form.scale || isReached(scale)} onChoose={(scale) => onChoose({ ...form, scale })} />
          <Choices label={word("fact_decimals")} value={form.decimals} names={DECIMALS} nameOf={(digits) => digits || word("asGiven")}
            isOffered={() => true} onChoose={(decimals) => onChoose({ ...form, decimals })} />
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function Choices<T extends string>({ label, value, names, nameOf, isOffered, onChoose }: {
  label: string; value: T; names: readonly T[]; nameOf: (name: T) => string; isOffered: (name: T) => boolean; onChoose: (name: T) => void;
}) {
  return (
    <>
      <DropdownMenu.Label>{label}</DropdownMenu.Label>
      <DropdownMenu.RadioGroup value={value} aria-label={label} onValueChange={(name) => onChoose(name as T)}>{names.map((name) => (
        <DropdownMenu.RadioItem key={name} value={name} disabled={!isOffered(name)} onSelect={(event) => event.preventDefault()}>
          <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>{nameOf(name)}
        </DropdownMenu.RadioItem>
      ))}</DropdownMenu.RadioGroup>
    </>
  );
}
