"""The phrase book of the synthetic typists: written for this project, free of other text.

A template may hold `{slot}`, filled from `SLOTS` or from the typist's own names and
habits, and `[...]`, a part that is there half of the time. One template a line.
"""

from __future__ import annotations


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", " ").split(",") if part.strip())


SLOTS: dict[str, tuple[str, ...]] = {
    "day": _words(
        "today, tomorrow, tonight, on monday, on tuesday, on wednesday, on thursday, on friday, "
        "on saturday, on sunday, this weekend, next week, this evening, tomorrow morning"
    ),
    "time": _words(
        "at six, at seven, at eight, at nine, around noon, after lunch, after work, before dinner, "
        "in ten minutes, in half an hour, in an hour, later, at half past five"
    ),
    "clock": _words(
        "at six, at seven, at eight, at nine, at noon, after lunch, after work, before dinner, "
        "at half past five, at two, at three, in the afternoon, at ten"
    ),
    "past_day": _words(
        "yesterday, last night, last week, this morning, on sunday, on friday, last weekend, "
        "on monday, the other day"
    ),
    "wait": _words(
        "five minutes, ten minutes, fifteen minutes, twenty minutes, half an hour, an hour"
    ),
    "place": _words(
        "the station, the library, the park, the mall, my place, your place, the office, the gym, "
        "the cafe, the bus stop, the market, the beach, the airport, the school gate"
    ),
    "food": _words(
        "pizza, fried rice, curry, soup, salad, ramen, sushi, pasta, fried chicken, noodle soup, "
        "lasagne, steak, barbecue, chocolate cake, ice cream, fish and chips"
    ),
    "drink": _words("coffee, tea, hot chocolate, a smoothie, orange juice, a beer, some water"),
    "taste": _words("so good, really good, amazing, a bit salty, too spicy, not bad, delicious"),
    "meal": _words("breakfast, lunch, dinner, brunch, supper"),
    "feeling": _words(
        "tired, happy, hungry, sleepy, excited, stressed, bored, busy, sick, proud, nervous, fine"
    ),
    "very": _words("so, really, very, super, pretty"),
    "task": _words(
        "the report, the slides, my homework, the project, the essay, the emails, the budget, "
        "the presentation, the laundry, the dishes, the shopping list, my application"
    ),
    "boss": _words("my boss, my manager, the client, the team, my teacher, the professor, hr"),
    "work_thing": _words(
        "the meeting, the test, the interview, the call, the exam, the training, the shift, "
        "the class, the lecture, the workshop"
    ),
    "family": _words(
        "mum, dad, my sister, my brother, grandma, grandpa, my aunt, my uncle, my cousin, the baby"
    ),
    "pet": _words("the dog, the cat, the puppy, the kitten, the hamster, the parrot"),
    "pet_act": _words(
        "ate my sandwich, slept all day, jumped on the table, chased a bird, hid under the bed, "
        "broke a vase, is barking again, wants to go out, stole a sock, is so cute"
    ),
    "city": _words(
        "london, paris, rome, tokyo, singapore, berlin, lisbon, new york, sydney, bangkok, madrid"
    ),
    "vehicle": _words("the bus, the train, the metro, a taxi, my bike, the car, the plane"),
    "trip_part": _words("the flight, the train, the tour, the night bus, the ferry"),
    "sport": _words(
        "football, tennis, basketball, badminton, volleyball, chess, table tennis, hockey, cricket"
    ),
    "exercise": _words("running, swimming, climbing, cycling, hiking, dancing"),
    "team_result": _words("won, lost, played so well, lost again, won the cup"),
    "show": _words(
        "the new episode, that movie, the game, the concert, the new album, the series, "
        "the podcast, that book, the quiz show"
    ),
    "weather": _words("raining, snowing, so hot, freezing, sunny, windy, cloudy, humid"),
    "cloth": _words(
        "shoes, a jacket, a dress, jeans, a scarf, an umbrella, a hat, socks, sunglasses, a bag"
    ),
    "shop_item": _words(
        "milk, eggs, bread, butter, rice, bananas, apples, tomatoes, onions, cheese, toilet paper, "
        "coffee beans, cat food, batteries"
    ),
    "money": _words("five, ten, twenty, fifty, a hundred"),
    "body": _words("my head, my back, my knee, my stomach, my throat, my tooth, my foot"),
    "device": _words("my phone, my laptop, the wifi, the printer, the washing machine, the heater"),
    "room": _words("the kitchen, the bathroom, my room, the garage, the garden, the living room"),
    "good": _words("great, nice, lovely, cool, awesome, perfect, wonderful, fun"),
    "subject": _words("maths, history, biology, english, physics, chemistry, art, music"),
    "plan": _words(
        "watch a movie, go for a walk, grab some food, play games, study together, go shopping, "
        "cook something, get coffee, go to the beach, go for a run, stay home"
    ),
    "gift": _words("a book, flowers, a cake, a mug, chocolates, a plant, a card, concert tickets"),
    "number": _words("two, three, four, five, six, seven, ten"),
}

# Opening and short replies: said whatever the topic.
GREETINGS = _words(
    "hey, hi, hello, good morning, hey there, hiya, yo, morning, hi love, hey you, good evening, "
    "hey mate"
)
CLOSINGS = _words(
    "see you soon, talk later, take care, love you, good night, bye for now, see you there, "
    "miss you, thanks again, have a nice day, let me know, call me later, sleep well, "
    "good luck, safe travels, text me when you get home"
)
FILLERS = _words(
    "honestly, anyway, by the way, to be honest, i think, guess what, so basically, well, "
    "actually, i mean, no worries, just so you know, oh my god, i swear"
)
LAUGHS = _words("haha, lol, hahaha, hehe, lmao, heh")
EMOJI = _words("😂, 😊, ❤️, 👍, 😭, 🙈, 🎉, 😅, 🙏, 😘, 🤔, 🔥")
REPLIES = _lines(
    """
    ok
    yes please
    sure
    no problem
    thank you so much
    sounds good to me
    i know right
    of course
    that is so true
    not yet
    maybe later
    no way
    i am on my way
    just got home
    are you there
    what do you think
    i will let you know
    sorry i missed your call
    can i call you back
    no idea
    give me a minute
    that is so funny
    i hope so
    good idea
    same here
    """
)

NAMES = _words(
    "sam, alex, maya, tom, lily, ben, nina, omar, priya, chloe, jack, mei, luca, sara, daniel, "
    "ruth, ivan, zoe, leo, anna, kofi, emma, raj, hana, marco, julia, noah, grace, felix, ines"
)

TOPICS: dict[str, tuple[str, ...]] = {
    "plans": _lines(
        """
        are you free {day}
        do you want to {plan} {day}
        let us {plan} {day}
        shall we meet at {place} {clock}
        can we meet {clock} instead
        i will be at {place} {clock}
        see you at {place} {clock}
        i will be there in {wait}
        sorry i am running late i will be there in {wait}
        {friend} and i want to {plan} {day} [do you want to come]
        what are you doing {day}
        i can not make it {day} [can we do it next week]
        where are you [i am at {place}]
        i am waiting at {place}
        let me know when you get to {place}
        what time do you want to meet
        is {friend} coming {day}
        looking forward to seeing you {day}
        """
    ),
    "food": _lines(
        """
        i am {very} hungry
        do you want {food} for {meal}
        i had {food} for {meal} and it was {taste}
        what do you want for {meal}
        let us get {food} {day}
        can you get me {drink}
        i need {drink} first
        the {food} at that place is {taste}
        i am making {food} [do you want some]
        have you had {meal} yet
        we should try the new place near {place}
        {friend} made {food} and it was {taste}
        shall i bring {food} or {drink}
        i could eat {food} every day
        """
    ),
    "work": _lines(
        """
        i have to finish {task} {day}
        i finished {task} {past_day}
        {boss} wants {task} {day}
        i am still at work
        {work_thing} was {very} long {past_day}
        how was {work_thing}
        did you finish {task}
        can you send me {task} please
        i will send you {task} {time}
        {work_thing} is {day} and i am {very} {feeling}
        i am in a meeting can i call you back
        just finished {task}
        i got the job
        {boss} said yes
        work was {very} busy today
        i need a holiday
        do not forget {work_thing} {day}
        """
    ),
    "family": _lines(
        """
        {family} says hi
        how is {family}
        {family} is coming {day}
        i am going to see {family} {day}
        can you pick up {family} {clock}
        tell {family} i said hi
        {family} called me {past_day}
        it is the birthday of {family} {day}
        what should i get for {family} [maybe {gift}]
        i got {gift} for {family}
        {family} is {very} {feeling}
        we are having {meal} with {family} {day}
        happy birthday {friend} i hope you have a {good} day
        give {family} a hug from me
        """
    ),
    "travel": _lines(
        """
        i am on {vehicle} now
        {vehicle} is {wait} late
        i just missed {vehicle}
        we are going to {city} {day}
        how was {city}
        {city} is {very} beautiful
        have you booked {trip_part}
        i need to book {trip_part} to {city}
        i forgot my passport
        i am packing my suitcase for {city}
        the hotel in {city} was {good}
        what time is {trip_part}
        i will take {vehicle} to {place}
        i land {clock}
        there is so much traffic near {place}
        can you pick me up from {place} {clock}
        send me pictures from {city}
        i want to go back to {city}
        """
    ),
    "mood": _lines(
        """
        i am {very} {feeling}
        i am {very} {feeling} today
        are you ok
        how are you feeling [today]
        i could not sleep last night
        i need to sleep
        i had a {good} day
        what a day
        i am {feeling} because of {work_thing}
        do not worry it will be fine
        i miss you so much
        i can not wait to see you
        i hope you feel better soon
        that made my day
        thank you for being {very} nice to me
        i was {very} {feeling} {past_day}
        """
    ),
    "sport": _lines(
        """
        do you want to play {sport} {day}
        we {team_result} [it was {good}]
        did you watch the game {past_day}
        they {team_result} [i can not believe it]
        i went {exercise} with {friend}
        do you want to go {exercise} {day}
        i played {sport} with {friend} {past_day}
        i am going to the gym {clock}
        practice is {day} {clock}
        {sport} was {good} {past_day}
        my legs hurt after {exercise}
        {friend} is {very} good at {sport}
        are we still on for {sport} {day}
        """
    ),
    "media": _lines(
        """
        have you seen {show}
        {show} was {good}
        i am watching {show} now
        no spoilers please i have not seen {show} yet
        do you want to watch {show} {day}
        i can not stop listening to {show}
        send me the link
        did you see the picture i sent you
        {friend} told me about {show}
        i fell asleep during {show}
        the end of {show} made me cry
        """
    ),
    "home": _lines(
        """
        i am cleaning {room}
        {device} is not working
        {device} is broken again
        can you fix {device}
        my battery is low
        i lost my keys again
        did you lock the door
        who left the lights on in {room}
        i will be home {clock}
        the package is here
        can you take out the trash
        we need to paint {room}
        the neighbours are {very} loud
        """
    ),
    "shopping": _lines(
        """
        can you buy {shop_item} and {shop_item}
        we need {shop_item}
        we are out of {shop_item}
        do we need {shop_item}
        i am at the shop do you need anything
        i bought {cloth} {past_day}
        i need {cloth}
        how much was it
        it was only {money} dollars
        i owe you {money} dollars
        can you lend me {money} dollars
        {cloth} would look {good} on you
        there is a sale at the mall
        """
    ),
    "school": _lines(
        """
        did you do the {subject} homework
        the {subject} exam is {day}
        i failed {subject}
        i passed the {subject} exam
        can you help me with {subject}
        i have {number} classes {day}
        we got so much homework {past_day}
        let us study {subject} at {place} {day}
        what is on the {subject} exam
        class is cancelled {day}
        i need to hand in {task} {day}
        """
    ),
    "health": _lines(
        """
        {body} hurts
        i have a cold
        i am going to the doctor {day}
        did you take your medicine
        get well soon
        the doctor said i need to rest
        i am feeling much better now
        {family} is in hospital but doing fine
        drink some water and get some rest
        {body} still hurts after {exercise}
        """
    ),
    "pets": _lines(
        """
        {pet} {pet_act}
        look at {pet}
        can you feed {pet} {day}
        {pet} misses you
        i took {pet} to the vet
        i am walking {pet} near {place}
        {family} loves {pet}
        i think {pet} is {feeling}
        """
    ),
    "weather": _lines(
        """
        it is {weather} here
        is it {weather} there
        it has been {weather} all day
        take {cloth} it is {weather}
        the weather is {good} let us {plan}
        it will be {weather} {day}
        i hate it when it is {weather}
        we can {plan} if it is not {weather}
        """
    ),
}

# Habits of spelling, in groups of which a typist has one or another: what is said, and
# how some people type it.
SHORTHAND: tuple[tuple[tuple[str, str], ...], ...] = (
    (("you", "u"), ("your", "ur"), ("are", "r")),
    (("tomorrow", "tmr"), ("tonight", "2nite"), ("today", "2day")),
    (("tomorrow", "tomoz"),),
    (("please", "pls"),),
    (("please", "plz"),),
    (("thank you", "thx"), ("thanks", "thx")),
    (("thank you", "ty"),),
    (("because", "cos"),),
    (("because", "cuz"),),
    (("going to", "gonna"), ("want to", "wanna")),
    (("i will", "i'll"), ("i am", "i'm"), ("do not", "don't"), ("can not", "can't")),
    (("i am", "im"), ("do not", "dont"), ("can not", "cant"), ("let us", "lets")),
    (("let us", "let's"), ("it is", "it's"), ("that is", "that's"), ("what is", "what's")),
    (("ok", "okay"),),
    (("ok", "k"),),
    (("yes", "yeah"),),
    (("yes", "yep"),),
    (("really", "rly"),),
    (("sorry", "sry"),),
    (("by the way", "btw"), ("to be honest", "tbh"), ("oh my god", "omg")),
    (("see you", "see ya"),),
    (("and", "n"),),
)  # fmt: skip
