-- Macros for the figures of the evaluation set: e entity, i indicator, a and b first and last date, d date.
-- A level is the last value on or before a date, so that the end of a month needs no trading day.
create macro level(e, i, d) as (
  select last(value order by date) from observations where entity = e and indicator = i and date <= cast(d as date));
create macro change(e, i, a, b) as 100 * (level(e, i, b) / level(e, i, a) - 1);
-- Closes are adjusted for dividends where the source does so: of companies this is the total return.
create macro gain(e, a, b) as change(e, 'close_adj', a, b);
create macro yearly(e, a, b) as 100 * (pow(
  level(e, 'close_adj', b) / level(e, 'close_adj', a), 365.25 / date_diff('day', cast(a as date), cast(b as date))) - 1);
create macro drawdown(e, a, b) as (
  select 100 * min(value / peak - 1) from (
    select value, max(value) over (order by date) as peak from observations
    where entity = e and indicator = 'close_adj' and date between cast(a as date) and cast(b as date)));
-- The first return of the window is measured from the close before it.
create macro volatility(e, a, b) as (
  select 100 * sqrt(252) * stddev_samp(r) from (
    select date, value / lag(value) over (order by date) - 1 as r from observations
    where entity = e and indicator = 'close_adj')
  where date between cast(a as date) and cast(b as date));
create macro lowest(e, i, a, b) as (
  select min(value) from observations
  where entity = e and indicator = i and date between cast(a as date) and cast(b as date));
create macro highest(e, i, a, b) as (
  select max(value) from observations
  where entity = e and indicator = i and date between cast(a as date) and cast(b as date));
create macro day_lowest(e, i, a, b) as (
  select arg_min(date, value) from observations
  where entity = e and indicator = i and date between cast(a as date) and cast(b as date));
create macro day_highest(e, i, a, b) as (
  select arg_max(date, value) from observations
  where entity = e and indicator = i and date between cast(a as date) and cast(b as date));
create macro day_above(e, i, v, a) as (
  select min(date) from observations where entity = e and indicator = i and date > cast(a as date) and value >= v);
