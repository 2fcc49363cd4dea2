"""Keys and values of text tasks: cities, words, invented names, numbers and ids, never the same one twice."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

__all__ = ["CITIES", "Fresh"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CITIES = _words(
    """
    Abidjan Accra Adelaide Ahmedabad Algiers Almaty Amman Amsterdam Ankara Antwerp Asuncion Athens Atlanta
    Auckland Baghdad Baku Bamako Bangkok Barcelona Basel Beirut Belgrade Bergen Berlin Bilbao Bogota Bordeaux
    Boston Bratislava Brisbane Brussels Bucharest Budapest Busan Cairo Calgary Caracas Cardiff Casablanca
    Chennai Chicago Cologne Colombo Copenhagen Dakar Dallas Damascus Delhi Denver Dhaka Doha Dresden Dubai
    Dublin Durban Edinburgh Florence Frankfurt Fukuoka Gdansk Geneva Genoa Glasgow Gothenburg Granada Guayaquil
    Hamburg Hanoi Harare Havana Helsinki Hiroshima Houston Istanbul Jakarta Jerusalem Kabul Kampala Karachi
    Kathmandu Kigali Kingston Kolkata Krakow Lagos Lahore Leeds Leipzig Lima Lisbon Liverpool Ljubljana London
    Luanda Lusaka Lyon Madrid Malaga Managua Manila Maputo Marseille Melbourne Memphis Miami Milan Minsk Mombasa
    Montreal Mumbai Munich Nagoya Nairobi Naples Osaka Oslo Ottawa Palermo Paris Perth Phoenix Porto Prague
    Quito Rabat Riga Rome Rotterdam Santiago Sapporo Sarajevo Seattle Seoul Seville Shanghai Sofia Stockholm
    Stuttgart Sydney Taipei Tallinn Tashkent Tbilisi Tehran Tirana Tokyo Toronto Tripoli Tunis Turin Utrecht
    Valencia Vancouver Venice Vienna Vilnius Warsaw Wellington Yerevan Zagreb Zurich
    """
)
"""Cities of one word in plain letters, each once."""

_ADJECTIVES = _words(
    """
    amber ancient bitter blue brave bright broad calm clever cold copper crisp curly dark deep dusty eager early
    empty faint fair fierce fine flat fresh gentle glad golden grand green grey happy heavy hidden hollow honest
    humble icy idle jolly keen kind large late lazy light little lively lone long loud lucky mellow mild modest
    narrow neat new noble odd old pale patient plain polite proud purple quick quiet rapid rare red rough round
    rusty sharp shiny silent silver simple slow small smooth soft solid steady still strong sunny swift tall
    tame tender thin tidy tiny vast warm wild wise young
    """
)
_NOUNS = _words(
    """
    acorn anchor apple arrow badger banner barrel basket beacon bell berry blanket boat bottle branch bridge
    bucket button cabin candle canyon carpet castle cedar chalk cherry cloud clover coat comet compass copper
    cradle crown desert dolphin drum eagle engine falcon feather fern field flute forest fountain garden garlic
    gate glove hammer harbor hazel heron hill honey island ivory jacket kettle lake lantern leaf lemon lily
    lizard magnet maple marble meadow mirror moon mountain needle oak ocean olive orchard otter oven owl paddle
    palace paper pebble pepper piano pillow planet pond rabbit raven ribbon river robin saddle salmon shell
    shovel spoon
    """
)
_ONSETS = _words("b br c cl d dr f fl g gr h j k kr l m n p pr qu r s sk st t tr v w z")
_VOWELS = _words("a e i o u ai ea ia o u")
_CODAS = _words("l n r s th nd rk m x")


class Fresh:
    """Random names that it never gives twice: one for each prompt."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._given: set[str] = set(CITIES)

    def word(self) -> str:
        """An adjective and a noun, as in "quiet-otter", with a further adjective when pairs grow rare."""
        pick = self._rng.choice
        tries = [f"{pick(_ADJECTIVES)}-{pick(_NOUNS)}" for _ in range(8)]
        for pair in tries:
            if pair not in self._given:
                self._given.add(pair)
                return pair
        return self._new(lambda: f"{pick(_ADJECTIVES)}-{pick(_ADJECTIVES)}-{pick(_NOUNS)}")

    def name(self) -> str:
        """An invented name of three syllables, as in "Krovealin"; no city of `CITIES`."""
        pick = self._rng.choice

        def draw() -> str:
            return "".join(pick(_ONSETS) + pick(_VOWELS) for _ in range(3)).capitalize() + pick(_CODAS)

        return self._new(draw)

    def number(self, digits: int = 7) -> str:
        """A number of so many digits, the first of them not 0."""
        return self._new(lambda: str(self._rng.randrange(10 ** (digits - 1), 10**digits)))

    def uuid(self) -> str:
        """A random UUID of version 4."""
        return self._new(lambda: str(uuid.UUID(int=self._rng.getrandbits(128), version=4)))

    def code(self, letters: str, size: int) -> str:
        """So many of the letters."""
        return self._new(lambda: "".join(self._rng.choice(letters) for _ in range(size)))

    def _new(self, draw: Callable[[], str]) -> str:
        while (drawn := draw()) in self._given:
            pass
        self._given.add(drawn)
        return drawn
