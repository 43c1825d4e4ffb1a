"""The regions of the bundled default, and which territories each has. Nothing about people or networks.

The paper divides its groups by the regions of a directory, of which its figures show Asia, the US and Europe.
Ours are those three and the rest of the world, so that each is both a part of the network and a part of the
language map: the Middle East reaches from Turkey to Iran, the Caucasus and Central Asia are Asia, islands go
with the nearest mainland unless their network is that of a far country.
"""

from __future__ import annotations

ASIA = "Asia"
EUROPE = "Europe"
US = "US"
LATIN_AMERICA = "Latin America"
AFRICA = "Africa"
MIDDLE_EAST = "Middle East"
CANADA = "Canada"
OCEANIA = "Oceania"

REGIONS = (ASIA, EUROPE, US, LATIN_AMERICA, AFRICA, MIDDLE_EAST, CANADA, OCEANIA)
"""In the order in which tables and plots have them."""

# ISO 3166-1, with what CLDR and GeoNames keep beside it: parts of countries that have a code of their own
# (AC, CP, CQ, DG, EA, IC, TA, XK), and countries that are no more (AN, CS).
_TERRITORIES = {
    ASIA: """
        AF AM AZ BD BN BT CN DG GE HK ID IN IO JP KG KH KP KR KZ LA LK MM MN MO MV MY NP PH PK SG TH TJ TL
        TM TW UZ VN
    """,
    EUROPE: """
        AD AL AT AX BA BE BG BY CH CQ CS CY CZ DE DK EA EE ES FI FO FR GB GG GI GL GR HR HU IC IE IM IS IT JE
        LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK
    """,
    US: "US",
    LATIN_AMERICA: """
        AG AI AN AR AW BB BL BM BO BQ BR BS BV BZ CL CO CP CR CU CW DM DO EC FK GD GF GP GS GT GY HN HT JM KN
        KY LC MF MQ MS MX NI PA PE PR PY SR SV SX TC TT UY VC VE VG VI
    """,
    AFRICA: """
        AC AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU
        MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TA TD TF TG TN TZ UG YT ZA ZM ZW
    """,
    MIDDLE_EAST: "AE BH IL IQ IR JO KW LB OM PS QA SA SY TR YE",
    CANADA: "CA PM",
    OCEANIA: """
        AQ AS AU CC CK CX FJ FM GU HM KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS
    """,
}

_REGION_OF = {code: region for region, codes in _TERRITORIES.items() for code in codes.split()}


def territories(region: str) -> tuple[str, ...]:
    """The two-letter codes of a region's territories, sorted; none if it is not one of `REGIONS`."""
    return tuple(_TERRITORIES.get(region, "").split())


def region_of(iso2: str) -> str | None:
    """The region of a territory, by its two-letter code; None for what is no territory, such as "EU"."""
    return _REGION_OF.get(iso2)
