//! How stories open and end, whatever happens in between. `{slot}` is replaced; see `stories::Slots`.

/// How the hero is introduced, after "Once upon a time, ...".
pub const OPENINGS: &[&str] = &[
    "there lived {a_kind} named {hero}.",
    "there was {a_kind} whose name was {hero}.",
    "there lived {a_kind} called {hero}, who had a {home} {place}.",
    "{a_kind} named {hero} lived {place}.",
    "there was {a_kind} called {hero}, and everyone who met {him} liked {him} at once.",
    "there lived {a_kind} named {hero}, who had many dreams and very little money.",
];

/// Where the hero lives and what life is like there.
pub const SCENERY: &[&str] = &[
    "{Hero} lived {place}, and every morning {he} opened the window to greet the day.",
    "Every day {hero} worked from sunrise to sunset, and in the evening {he} sat by the fire and sang.",
    "From the window of {his} {home} one could see {wild}.",
    "Life was simple {place}, but {hero} was happy.",
    "{Hero} loved {food} and long walks more than anything else in the world.",
    "In {his} {home} there was a table, a chair, a bed, and a shelf with {number} old books.",
    "The neighbors said that nobody laughed as often as {hero}.",
];

/// How stories end.
pub const ENDINGS: &[&str] = &[
    "And they lived happily ever after.",
    "From that day on, {hero} and {friend} were the best of friends.",
    "That night {hero} fell asleep with a smile on {his} face.",
    "And if you ever come to that land, you may still hear people tell the story of {hero} and {friend}.",
    "And so the day ended well for everyone.",
    "Then {hero} went home, happy and tired, and slept until late in the morning.",
    "They told the story for many years, and each time it grew a little longer.",
    "And that is the end of the story.",
];

/// What can be learned from a story.
pub const MORALS: &[&str] = &[
    "A kind word costs nothing and is worth more than gold.",
    "Those who help others are never alone.",
    "Even the smallest friend can be a great help.",
    "Patience opens many doors.",
    "It is never too late to say sorry.",
    "To share a joy is to double it.",
    "One who asks for help is brave, not weak.",
];
