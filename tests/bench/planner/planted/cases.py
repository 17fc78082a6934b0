"""The planted errors: each is one true sentence, and the words of it that are replaced by wrong ones.

Numbers in brackets are materials of ``material.shelf``: 1 prices of Apple and Microsoft, 2 unemployment and inflation,
3 federal funds rate, 4 real GDP, 5 payrolls, 6 S&P 500, 7 the cell, 8 the Federal Reserve's cut, 9 Cavallo, 10 Qantas,
11 the Reserve Bank, 12 Ansett, 13 Traveland and Austar, 14 Virgin Blue. Every true sentence stands in the clean set too.
Some errors stay inside what the material holds (another day of the same sheet, a swapped year): those are the hard ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """``true`` with ``old`` replaced by ``new`` is wrong; ``kind`` is number, time or event."""

    kind: str
    true: str
    old: str
    new: str

    @property
    def wrong(self) -> str:
        assert self.true.count(self.old) == 1, self.true
        return self.true.replace(self.old, self.new)


N, T, E = "number", "time", "event"

CASES = (
    Planted(N, "Apple closed at 130.74 on 2020-12-31 [1].", "130.74", "137.04"),
    Planted(N, "Apple returned 432.9% over the period [7].", "432.9%", "423.9%"),
    Planted(N, "Microsoft's maximum drawdown was -28.0% [7].", "-28.0%", "-38.0%"),
    Planted(N, "US unemployment reached 10.0% in October 2009 [2].", "10.0%", "10.8%"),
    Planted(N, "CPI inflation peaked at 5.5% in July 2008 [2].", "5.5%", "6.5%"),
    Planted(N, "The federal funds rate stood at 5.25% in August 2006 [3].", "5.25%", "5.75%"),
    Planted(N, "Real GDP was 15.8 trillion dollars in the fourth quarter of 2010 [4].", "15.8 trillion", "18.5 trillion"),
    Planted(N, "Nonfarm payrolls fell to 130.5 million in April 2020 [5].", "130.5 million", "103.5 million"),
    Planted(N, "The S&P 500 closed at 752.44 on 2008-11-20 [6].", "752.44", "725.44"),
    Planted(N, "The Federal Reserve cut its key rate to 1.75 per cent [8].", "1.75", "1.57"),
    Planted(N, "The Reserve Bank took the cash rate to 4.25 per cent [11].", "4.25", "4.75"),
    Planted(N, "Traveland's staff are owed nearly $9 million in entitlements [13].", "$9 million", "$90 billion"),
    Planted(N, "2009年10月美国失业率为10.0%[2]。", "10.0%", "11.0%"),
    Planted(N, "苹果在该时期上涨432.9%[7]。", "432.9%", "342.9%"),
    Planted(N, "2020年4月非农就业人数为1.305亿人[5]。", "1.305亿", "1.503亿"),
    Planted(T, "Apple closed at 54.92 on 2020-03-23 [1].", "2020-03-23", "2020-04-23"),
    Planted(T, "US unemployment reached 10.0% in October 2009 [2].", "October 2009", "October 2008"),
    Planted(T, "CPI inflation peaked at 5.5% in July 2008 [2].", "July 2008", "July 2007"),
    Planted(T, "The federal funds rate stood at 0.16% in December 2008 [3].", "December 2008", "December 2006"),
    Planted(T, "Payrolls fell to 130,513 thousand in April 2020 [5].", "April", "September"),
    Planted(T, "The S&P 500 closed at 752.44 on 2008-11-20 [6].", "2008-11-20", "2008-10-20"),
    Planted(T, "Apple's drawdown of -38.5% ended on 2019-01-03 [7].", "2019-01-03", "2019-03-01"),
    Planted(T, "The key rate is at its lowest level since July 1961 [8].", "July 1961", "July 1971"),
    Planted(T, "The bank says 2001 and 2002 combined will produce the weakest period of growth [11].", "2002", "2003"),
    Planted(T, "Real GDP was 15,187.5 billion dollars in the first quarter of 2009 [4].", "2009", "2007"),
    Planted(T, "2009年10月美国失业率为10.0%[2]。", "2009年10月", "2009年3月"),
    Planted(T, "联邦基金利率在2008年12月为0.16%[3]。", "2008年12月", "2007年12月"),
    Planted(E, "Apple closed at 130.74 on 2020-12-31 [1].", "Apple", "Microsoft"),
    Planted(E, "Over the period Apple returned 432.9% and Microsoft 435.4% [7].", "Apple returned 432.9% and Microsoft 435.4%",
            "Apple returned 435.4% and Microsoft 432.9%"),
    Planted(E, "Nonfarm payrolls fell by 20.5 million in April 2020, from 151.0 to 130.5 million [5].", "fell", "rose"),
    Planted(E, "The Federal Reserve has cut a key interest rate by a quarter-point [8].", "cut", "raised"),
    Planted(E, "Economy Minister Domingo Cavallo is reported to have resigned [9].", "resigned", "been appointed"),
    Planted(E, "Economy Minister Domingo Cavallo is reported to have resigned [9].", "Domingo Cavallo", "Fernando Henrique"),
    Planted(E, "Qantas has unveiled the single-class leisure carrier Australian Airlines [10].", "Qantas", "Ansett"),
    Planted(E, "Initial flights will be from Cairns to Osaka, Nagoya and Singapore [10].", "Osaka", "Jakarta"),
    Planted(E, "The Reserve Bank has cut official interest rates again [11].", "cut", "raised"),
    Planted(E, "Austar shares rose five cents to 31.5 cents [13].", "rose", "fell"),
    Planted(E, "Ansett's administrators are confident of paying out the entitlements of almost 5,000 workers [12].",
            "are confident", "are not confident"),
    Planted(E, "Virgin Blue has begun offering $5 flights from Melbourne to five major cities [14].", "Melbourne", "Perth"),
    Planted(E, "Traveland's wholly-owned travel centres have ceased operating, leaving more than 550 staff seeking other jobs [13].",
            "ceased", "resumed"),
    Planted(E, "苹果2020年12月31日收于130.74美元，微软收于217.50美元[1]。", "苹果2020年12月31日收于130.74美元，微软收于217.50美元",
            "苹果2020年12月31日收于217.50美元，微软收于130.74美元"),
    Planted(E, "Microsoft's maximum drawdown of -28.0% was shallower than Apple's [7].", "Microsoft's maximum drawdown of -28.0% was shallower than Apple's",
            "Apple's maximum drawdown of -28.0% was shallower than Microsoft's"),
)  # fmt: skip

CLEAN = (
    "## Prices from 2015 to 2020\n\nFrom 2015-01-02 to 2020-12-31 Apple rose from 24.53 to 130.74 USD, a gain of 432.9% [7].",
    "Microsoft gained 435% [7], 2.5 percentage points more than Apple's 432.9% [7].",
    "Apple's volatility was 29.6% a year and Microsoft's 27.8% [7].",
    "The deepest fall of Apple was 38.5%, from its peak on 2018-10-03 to 2019-01-03 [7].",
    "Apple's highest adjusted close was 134.68 on 28 December 2020 [1].",
    "Unemployment rose from 4.6% in January 2007 to 10.0% in October 2009, by 5.4 percentage points [2].",
    "Inflation turned negative in December 2008 and was about -2.0% in July 2009 [2].",
    "The Federal Reserve cut its rate from 5.25% in January 2007 to 0.16% in December 2008 [3].",
    "Real GDP shrank in 2008 and 2009; it was 15,161.8 in the second quarter of 2009 [4].",
    "Payrolls fell by 20,493 thousand between March and April 2020 [5].",
    "Payrolls were 152.1 million in January 2020 and 142.5 million in December 2020 [5].",
    "Over 2008 the S&P 500 lost 37.6%, from 1,447.16 to 903.25 points [6].",
    "The index fell below 1,200 points on 15 September 2008: it closed at 1,192.70 [6].",
    "It was the 11th cut of the year, and the discount rate went to 1.25 per cent as well [8].",
    "The fleet of four Boeing 767-300 aircraft will be increased to 12 [10].",
    "Mr Foley's union says staff are owed nearly $9 million, and Austar expects savings of around $90 million [13].",
    "About 4,000 workers have been paid overnight, and another 800 are expected by the end of the week [12].",
    "The 10,000 midweek seats are for travel between January 9 and March 27 [14].",
    "从2015年到2020年，苹果上涨432.9%，微软上涨435.4%[7]。苹果的最大回撤为-38.5%，发生在2018年10月3日至2019年1月3日[7]。",
    "美国失业率从2007年1月的4.6%升至2009年10月的10.0%[2]。",
    "2020年4月非农就业减少约2049万人，降至1.305亿人[5]。",
    "There are 1,511 trading days in the table of prices [1].",
    "| measure | AAPL | MSFT |\n|---|---:|---:|\n| return | 432.9% | 435.4% |\n| maximum drawdown | -38.5% | -28.0% |",
)

# Written after the code was done with the cases above, and never used to change it: what to expect of other texts.
HELD_OUT = (
    Planted(N, "Microsoft closed 2020 at 217.50 [1].", "217.50", "271.50"),
    Planted(N, "Apple's annualised volatility was 29.6% [7].", "29.6%", "26.9%"),
    Planted(N, "Unemployment averaged 9.9% in the last two months of 2009 [2].", "9.9%", "8.9%"),
    Planted(N, "The funds rate had dropped to 12 basis points by October 2009 [3].", "12 basis points", "120 basis points"),
    Planted(N, "In December 2020 there were 142,497 thousand jobs [5].", "142,497", "124,497"),
    Planted(N, "2007年8月联邦基金利率为5.02%[3]。", "5.02%", "5.20%"),
    Planted(T, "On 2020-09-02 Microsoft reached 225.94 [1].", "2020-09-02", "2019-09-02"),
    Planted(T, "Inflation stood at -2.0% in July 2009 [2].", "July 2009", "July 2008"),
    Planted(T, "By December 2010 the funds rate was 0.18% [3].", "December 2010", "December 2007"),
    Planted(T, "Output was 15,161.8 billion in the second quarter of 2009 [4].", "second quarter of 2009", "second quarter of 2010"),
    Planted(T, "Lehman's weekend: on 15 September 2008 the index closed at 1,192.70 [6].", "15 September 2008", "15 October 2008"),
    Planted(T, "2020年5月非农就业为1.33155亿人[5]。", "2020年5月", "2020年11月"),
    Planted(E, "At the end of 2020 Microsoft stood at 217.50 [1].", "Microsoft", "Apple"),
    Planted(E, "Jobs fell by 20.5 million in April 2020 [5].", "fell", "increased"),
    Planted(E, "The economy slid into a recession in March after a 10-year expansion [8].", "recession", "boom"),
    Planted(E, "Police used teargas to disperse people near the presidential palace in Buenos Aires [9].", "Buenos Aires", "Montevideo"),
    Planted(E, "Australian Airlines will start operating in the third quarter of next year [10].", "start", "cease"),
    Planted(E, "Westpac's Bill Evans believes the cut will not be the last [11].", "will not be", "will be"),
)  # fmt: skip

# Events only, of texts whose words go another way than the material's: written before the check for exchanged words
# was, and never used to change it.
LATER = (
    Planted(E, "Policy makers also cut the discount rate by the same quarter-point margin [8].", "discount", "exchange"),
    Planted(E, "The Federal Open Market Committee said that economic activity remains soft [8].", "soft", "robust"),
    Planted(E, "Police used teargas to disperse people who had massed near the presidential palace [9].", "palace", "library"),
    Planted(E, "The reports could not be officially confirmed [9].", "could not be", "were"),
    Planted(E, "An initial fleet of four Boeing aircraft will eventually be increased to 12 [10].", "increased", "reduced"),
    Planted(E, "The new airline is wholly owned by Qantas [10].", "Qantas", "the state"),
    Planted(E, "The cut has been quickly passed on in full by all the major banks [11].", "banks", "retailers"),
    Planted(E, "The fares are to thank customers for their support, particularly in Victoria [14].", "Victoria", "Queensland"),
    Planted(E, "The midweek seats are only available on the Internet until Monday [14].", "Monday", "Friday"),
    Planted(E, "Administrators say they have a buyer for Traveland's franchise network [13].", "a buyer", "no buyer"),
)  # fmt: skip

# A third set of events, written after the check had been changed for what LATER showed, and before it was run on these.
FRESH = (
    Planted(E, "The central bank has left the door open to further easing [8].", "easing", "tightening"),
    Planted(E, "The state of emergency was declared after mounting popular discontent [9].", "discontent", "enthusiasm"),
    Planted(E, "Services will be extended to every Australian mainland capital [10].", "extended", "limited"),
    Planted(E, "Low interest rates and a sharp drop in oil prices should see a recovery start [11].", "recovery", "collapse"),
    Planted(E, "It was always hoped the money would be handed over before Christmas [12].", "Christmas", "Easter"),
    Planted(E, "The deal is yet to be approved by a committee of creditors [13].", "creditors", "shareholders"),
    Planted(E, "Spokesman David Huttner says the fares are to thank customers for their support [14].", "thank", "deter"),
    Planted(E, "The one-way fares are for flights to Sydney, Brisbane, Adelaide, Launceston and Canberra [14].", "Launceston", "Hobart"),
    Planted(E, "Australian Airlines is currently negotiating with various unions on wages [10].", "unions", "lenders"),
    Planted(E, "Some workers had been without payment for up to 12 weeks [12].", "without", "on full"),
)  # fmt: skip
