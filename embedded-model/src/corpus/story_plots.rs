//! What happens in stories, step by step. `{slot}` is replaced; see `stories::Slots`.

/// A plot: its steps, and for each step the sentences to choose from.
pub type Plot = &'static [&'static [&'static str]];

/// All plots.
pub const PLOTS: &[Plot] =
    &[LOST_TREASURE, STORM, LONELY, FEAR, GIFT, RACE, BRIDGE, GARDEN, DRAGON, LOST_WAY, QUARREL, KING];

const LOST_TREASURE: Plot = &[
    &[
        "{Time}, {hero} noticed that {his} {thing} was gone.",
        "{Time}, while {weather}, {hero} lost {his} {thing}.",
        "{Hero} had a {thing} that {he} loved very much, but {time_lower} it was nowhere to be found.",
    ],
    &[
        "{He} looked under the bed, behind the door and in every corner, but {he} could not find it.",
        "{He} searched the whole house, but the {thing} was not there.",
        "\"Where can it be?\" {he} cried, and {he} searched until it was dark.",
    ],
    &[
        "On the road {he} met {a_friend} named {friend}. \"Why are you so sad?\" asked {friend}.",
        "Then {a_friend} called {friend} came by. \"What are you looking for?\" {f_he} asked.",
    ],
    &[
        "\"I have lost my {thing},\" said {hero}. \"Then let us look for it together,\" said {friend}.",
        "{Hero} told {f_him} everything. \"Four eyes see more than two,\" said {friend}. \"I will help you.\"",
    ],
    &[
        "They walked through {wild}, and at last {friend} saw something shining in the grass.",
        "They followed the path to {wild}, where {friend} looked under every stone.",
        "They asked {number} birds on the way, and the last one pointed to {wild}.",
    ],
    &[
        "It was the {thing}! {Hero} was so happy that {he} danced.",
        "There lay the {thing}, safe and dry. \"Thank you!\" cried {hero}.",
    ],
    &[
        "To thank {f_him}, {hero} invited {friend} to eat {food}.",
        "In the evening they sat together, ate {food} and laughed about the long day.",
    ],
];

const STORM: Plot = &[
    &[
        "{Time}, a terrible storm came over the land.",
        "One night the wind began to howl, and rain beat against the windows.",
        "{Time}, the sky turned black, and thunder rolled over {wild}.",
    ],
    &[
        "{Hero} had just made {food} when there was a knock at the door.",
        "{Hero} was about to go to bed when {he} heard a soft knock.",
    ],
    &[
        "Outside stood {a_friend}, wet and cold. \"My name is {friend},\" said the {friend_kind}. \"May I come in?\"",
        "It was {a_friend} named {friend}, who had lost the way in the storm.",
    ],
    &[
        "\"Of course,\" said {hero}. \"There is always room for one more.\"",
        "The {home} was small, but {hero} opened the door wide. \"Come in and sit by the fire,\" {he} said.",
    ],
    &[
        "{He} gave {friend} a blanket and shared {his} {food}.",
        "They sat by the fire, ate {food} and told each other stories until the storm was over.",
    ],
    &[
        "In the morning the sun came out, but the storm had broken the roof.",
        "When morning came, {hero} saw that the wind had blown {his} fence away.",
    ],
    &[
        "\"You helped me, and now I will help you,\" said {friend}, and by noon everything was repaired.",
        "{Friend} stayed for {number} days and worked until all was as good as new.",
    ],
];

const LONELY: Plot = &[
    &[
        "But {hero} was lonely, because {he} had nobody to play with.",
        "{Hero} had everything {he} needed except a friend.",
        "{Time}, {hero} sat by the window and wished for a friend.",
    ],
    &[
        "Then {a_friend} named {friend} moved into the empty house next door.",
        "{Time}, {a_friend} called {friend} came to live nearby.",
    ],
    &[
        "{Hero} wanted to say hello, but {he} was too shy.",
        "{Hero} walked past the door {number} times, but {he} did not dare to knock.",
    ],
    &[
        "So {he} baked {food} and left it on the doorstep with a note.",
        "So {he} picked {number} {color} flowers and put them in front of the door.",
    ],
    &[
        "The next day {friend} knocked at {his} door. \"Was it you?\" {f_he} asked with a smile.",
        "Soon {friend} came out, looked around and called, \"What a lovely surprise! Who was so kind?\"",
    ],
    &[
        "\"Yes,\" said {hero} quietly. \"Would you like to be my friend?\"",
        "{Hero} took a deep breath and said, \"It was me. Would you like to play?\"",
    ],
    &[
        "\"I was hoping that you would ask,\" said {friend}. They played until the stars came out.",
        "\"I would love to,\" said {friend}, \"because I am new here and know nobody.\"",
    ],
];

const FEAR: Plot = &[
    &[
        "There was only one thing that {hero} was afraid of, and that was the dark.",
        "{Hero} had a secret: {he} was afraid of deep water.",
        "{Hero} was afraid of high places, and {he} had never told anyone.",
    ],
    &[
        "{Time}, {his} friend {friend} did not come home.",
        "{Time}, {hero} heard someone calling for help. It was {friend}.",
    ],
    &[
        "\"Somebody must go and look in {wild},\" said the neighbors, but nobody wanted to go.",
        "The call came from {wild}, and there was nobody else to help.",
    ],
    &[
        "{Hero} trembled, but {he} thought of {friend} and took the first step.",
        "\"I am afraid,\" said {hero}, \"but I will go all the same.\"",
    ],
    &[
        "{He} counted {his} steps and sang a song to keep up {his} courage.",
        "Step by step {he} went on, and each step was easier than the one before.",
    ],
    &[
        "At last {he} found {friend}, who had hurt a foot and could not walk alone.",
        "At last {he} found {friend} behind a fallen tree, cold but safe.",
    ],
    &[
        "\"You came!\" cried {friend}. \"You are the bravest {kind} I know.\"",
        "\"I knew that you would come,\" said {friend}, and together they walked home.",
    ],
    &[
        "{Hero} learned that being brave does not mean to have no fear.",
        "Since that day {hero} is not afraid any more.",
    ],
];

const GIFT: Plot = &[
    &[
        "{His} best friend was {a_friend} named {friend}, and tomorrow was {friend}'s birthday.",
        "{Time}, {hero} remembered that the birthday of {his} friend {friend} was near.",
    ],
    &[
        "{Hero} wanted to buy a {gift}, but {he} had only {number} small coins.",
        "In the shop {he} saw a beautiful {gift}, but it cost far too much.",
    ],
    &[
        "\"What can I give when I have nothing?\" {he} asked {himself}.",
        "Sadly {he} walked home, and while {weather}, {he} had an idea.",
    ],
    &[
        "{He} worked all night, and in the morning {he} had made a {gift} with {his} own hands.",
        "{He} took wood, paper and {color} paint, and slowly, slowly, a {gift} took shape.",
    ],
    &[
        "It was not perfect, and {hero} was worried when {friend} opened the parcel.",
        "When {friend} opened the box, it became very quiet in the room.",
    ],
    &[
        "\"You made this for me?\" asked {friend}. \"It is the best present I have ever had!\"",
        "Then {friend} laughed with joy. \"Nobody else in the world has one like this,\" {f_he} said.",
    ],
    &[
        "They celebrated with {food} and danced until midnight.",
        "There was {food} for everyone, and all the guests wanted to see the {gift}.",
    ],
];

const RACE: Plot = &[
    &[
        "Every year there was a great race through {wild}, and {hero} wanted to win it.",
        "{Time}, the mayor announced a race through {wild}. The prize was a {thing}.",
    ],
    &[
        "\"You are much too slow,\" laughed {friend} the {friend_kind}, who had won {number} times.",
        "Nobody believed that {hero} could win, least of all {friend}, the fastest of them all.",
    ],
    &[
        "But {hero} did not listen. {He} practiced every day before breakfast.",
        "So {hero} got up early each morning and ran up the hill and down again.",
    ],
    &[
        "On the day of the race, {weather}, and everyone came to watch.",
        "At last the great day came. \"Ready, steady, go!\" shouted the mayor.",
    ],
    &[
        "{Friend} was far ahead, but near the end {f_he} stumbled and fell.",
        "{Hero} ran faster than ever before, but then {he} saw {friend} lying by the road.",
    ],
    &[
        "{Hero} could have run on and won, but {he} stopped. \"Are you hurt?\" {he} asked.",
        "{Hero} stopped at once and helped {f_him} up. \"We will go on together,\" {he} said.",
    ],
    &[
        "Arm in arm they crossed the line, and the crowd cheered for both of them.",
        "They were the last to arrive, but nobody had ever heard such applause.",
    ],
    &[
        "\"I am sorry that I laughed at you,\" said {friend}.",
        "\"Today you have won more than a race,\" said {friend}.",
    ],
];

const BRIDGE: Plot = &[
    &[
        "{Time}, the river rose and carried the old bridge away.",
        "{Time}, the only bridge in the land broke, and nobody could cross the river.",
    ],
    &[
        "On one side was the market, on the other the mill, and soon there was no bread.",
        "The children could not go to school, and the farmers could not go to the market.",
    ],
    &[
        "\"Somebody should do something,\" said everyone, but nobody did anything.",
        "The people stood on the bank and complained, but complaining builds no bridges.",
    ],
    &[
        "So {hero} took a rope and a saw and began to work.",
        "{Hero} said nothing. {He} went to {wild} and came back with the first piece of wood.",
    ],
    &[
        "First came {friend} the {friend_kind} to help, then {number} others, and in the end the whole village.",
        "\"Alone you will need a year,\" said {a_friend} named {friend}. \"Let me help you.\"",
    ],
    &[
        "One cut the wood, one carried stones, one cooked {food} for all.",
        "They worked for {number} days, and in the evenings they ate {food} by the fire.",
    ],
    &[
        "When the bridge was finished, they painted it {color} and had a feast.",
        "The new bridge was stronger than the old one, and they named it after {hero}.",
    ],
];

const GARDEN: Plot = &[
    &[
        "{Time}, {hero} found a single seed on the road.",
        "{Time}, an old traveler gave {hero} a seed and said, \"Take good care of it.\"",
    ],
    &[
        "{He} planted it behind {his} {home} and gave it water every day.",
        "{He} put it into the earth, watered it and waited.",
    ],
    &[
        "A week went by, and nothing happened. \"It will never grow,\" said {friend} the {friend_kind}.",
        "{Friend}, {a_friend} who lived nearby, looked over the fence. \"I see nothing but mud,\" {f_he} said.",
    ],
    &[
        "\"We must be patient,\" answered {hero}, and {he} went on watering.",
        "But {hero} did not give up. \"Good things need time,\" {he} said.",
    ],
    &[
        "Then, after {number} weeks, a small green leaf came out of the ground.",
        "And one morning, while {weather}, there was a tiny green leaf.",
    ],
    &[
        "It grew and grew, and in the end it was the most beautiful {flower} in the land.",
        "By the end of summer it had become a wonderful {flower}, taller than {hero}.",
    ],
    &[
        "{Hero} gave {friend} some of the new seeds. \"Now you can grow one, too,\" {he} said.",
        "People came from far away to see it, and {hero} gave a seed to each of them.",
    ],
];

const DRAGON: Plot = &[
    &[
        "{Time}, news came that a dragon lived in {wild}.",
        "For {number} nights people had heard a terrible roar from {wild}.",
    ],
    &[
        "The king offered a chest of gold to anyone who could drive the dragon away.",
        "\"Who will go and speak to the dragon?\" asked the queen. All the knights looked at their shoes.",
    ],
    &[
        "\"I will go,\" said {hero}, and everybody laughed.",
        "{Hero} was only {a_kind}, but {he} raised a hand and said, \"Let me try.\"",
    ],
    &["{He} took no sword, only {food} and {his} {thing}.", "With {food} in a basket, {he} walked for {number} days."],
    &[
        "In a cave {he} found the dragon. Big tears were running down its face.",
        "The dragon was as big as a house, but it did not look angry at all. It looked sad.",
    ],
    &[
        "\"Why do you roar?\" asked {hero}. \"Because I have a thorn in my foot,\" said the dragon.",
        "\"Why are you crying?\" asked {hero}. \"My name is {friend}, and I am all alone,\" said the dragon.",
    ],
    &[
        "{Hero} helped the dragon as well as {he} could, and then they ate {food} together.",
        "\"Then come and live with us,\" said {hero}. \"We need somebody to light the fires in winter.\"",
    ],
    &[
        "Since then the dragon guards the land, and children ride on its back.",
        "The king kept his word, and {hero} shared the gold with all the people.",
    ],
];

const LOST_WAY: Plot = &[
    &["{Time}, {hero} went to {wild} to look for berries.", "{Time}, {hero} followed a {color} butterfly into {wild}."],
    &[
        "{He} walked and walked, and when {he} turned around, the path was gone.",
        "Before {he} knew it, night had fallen, and all the trees looked the same.",
    ],
    &[
        "\"I must not be afraid,\" {he} said, and {he} sat down under a tree to think.",
        "{He} called out, but only the echo answered.",
    ],
    &[
        "Then {he} heard a voice above {him}. It was {a_friend} named {friend}.",
        "A small light came nearer. It was {friend}, {a_friend} with a lantern.",
    ],
    &[
        "\"If you follow the stream, you will find the village,\" said {friend}. \"Water always knows the way.\"",
        "\"Look at the stars,\" said {friend}. \"The brightest one stands over your home.\"",
        "\"I know every path,\" said {friend}. \"Come with me.\"",
    ],
    &[
        "Together they crossed {number} hills and a river.",
        "They walked all night and told each other riddles so that they would not fall asleep.",
    ],
    &[
        "When the sun came up, {hero} saw {his} own chimney. \"I am home!\" {he} cried.",
        "At dawn they reached the {home}, and {hero} made {food} for both of them.",
    ],
    &["{Hero} gave {friend} {his} {thing} as a present.", "\"Come and visit me whenever you like,\" said {hero}."],
];

const QUARREL: Plot = &[
    &[
        "{Hero} and {friend} the {friend_kind} were neighbors and did everything together.",
        "{Hero} had a good friend, {a_friend} named {friend}.",
    ],
    &[
        "{Time}, they found a {thing} on the road. \"I saw it first!\" said {hero}. \"No, I did!\" said {friend}.",
        "{Time}, they could not agree who should have the last piece of cake.",
    ],
    &[
        "They shouted at each other, and each of them went home alone.",
        "They became so angry that they did not speak to each other for {number} days.",
    ],
    &[
        "But alone nothing was fun. The games were dull, and even {food} did not taste good.",
        "{Hero} sat in {his} {home} and felt very sad. It was much too quiet.",
    ],
    &[
        "\"A friend is worth more than that,\" {he} thought, and {he} put on {his} coat.",
        "At last {he} stood up. \"I will say that I am sorry,\" {he} decided.",
    ],
    &[
        "Halfway between the two houses {he} met {friend}, who was on the way to {him}.",
        "When {he} opened the door, there stood {friend} with a bunch of {color} flowers.",
    ],
    &[
        "\"I am sorry,\" they both said at the same time, and then they laughed.",
        "\"Please forgive me,\" said {hero}. \"Only if you forgive me, too,\" said {friend}.",
    ],
];

const KING: Plot = &[
    &[
        "In that land ruled an old king who could not sleep.",
        "In the castle lived a princess who had never laughed.",
        "The queen of that land had lost her {thing}, and with it all her joy.",
    ],
    &[
        "Doctors and wise men came from {number} countries, but none of them could help.",
        "Everyone who came to the castle tried to help, but all in vain.",
    ],
    &[
        "When {hero} heard of it, {he} packed {food} and set out.",
        "\"Perhaps I can help,\" said {hero}, and {he} walked to the castle through {wild}.",
    ],
    &[
        "On the way {he} met {a_friend} named {friend}, who was hungry, and {he} shared {his} {food}.",
        "At the gate sat {a_friend} called {friend}, and {hero} gave {f_him} half of {his} bread.",
    ],
    &[
        "\"Because you are kind, I will come with you,\" said {friend}.",
        "\"I know a song that nobody can resist,\" said {friend}. \"Let us go in together.\"",
    ],
    &[
        "In the great hall, {hero} told a story while {friend} played a song.",
        "They did not bring medicine or gold. They sat down and told about their journey.",
    ],
    &[
        "And behold, it worked! The whole castle was filled with laughter.",
        "It was so quiet that one could hear a feather fall. Then everyone began to smile.",
    ],
    &[
        "As a reward, {hero} asked only for a {thing} and a good meal.",
        "They were given {number} bags of gold and were always welcome in the castle.",
    ],
];
