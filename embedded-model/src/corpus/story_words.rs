//! The names, places and things that stories are about.

/// Names of girls.
pub const GIRLS: &[&str] = &[
    "Lily", "Anna", "Clara", "Mia", "Rose", "Emma", "Nora", "Ella", "Lucy", "Ruby", "Hazel", "Ivy", "Alice", "Molly",
    "Daisy", "Stella", "Mary", "Grace", "Sara", "Luna",
];

/// Names of boys.
pub const BOYS: &[&str] = &[
    "Tom", "Ben", "Max", "Leo", "Sam", "Oliver", "Jack", "Peter", "Finn", "Henry", "Theo", "Oscar", "Hugo", "Felix",
    "Robin", "Noah", "Paul", "Martin", "Simon", "Jasper",
];

/// What the hero of a story can be.
pub const HERO_KINDS: &[&str] = &[
    "rabbit",
    "fox",
    "bear",
    "mouse",
    "hedgehog",
    "squirrel",
    "badger",
    "otter",
    "farmer",
    "baker",
    "miller",
    "shepherd",
    "tailor",
    "gardener",
    "fisher",
    "weaver",
    "cat",
    "dog",
    "goose",
    "dragon",
    "clockmaker",
    "painter",
];

/// What the friend of the hero can be.
pub const FRIEND_KINDS: &[&str] = &[
    "owl",
    "fox",
    "bear",
    "deer",
    "turtle",
    "frog",
    "crow",
    "donkey",
    "wolf",
    "goat",
    "sparrow",
    "beaver",
    "old sailor",
    "traveler",
    "fiddler",
    "lion",
    "hare",
    "swan",
    "blacksmith",
    "horse",
];

/// What the hero is like.
pub const TRAITS: &[&str] = &[
    "little", "kind", "young", "clever", "shy", "brave", "curious", "gentle", "cheerful", "small", "quiet", "friendly",
    "honest", "patient", "merry", "poor",
];

/// Where the hero lives.
pub const PLACES: &[&str] = &[
    "in a small village by the river",
    "at the edge of a great forest",
    "on a green hill above the sea",
    "in a valley between two mountains",
    "near an old stone bridge",
    "beside a deep blue lake",
    "in a town with narrow streets and red roofs",
    "on an island full of birds",
    "at the foot of a snowy mountain",
    "in a meadow full of flowers",
    "close to the walls of a silver castle",
    "under the tallest oak of the wood",
];

/// Where adventures take place.
pub const WILD_PLACES: &[&str] = &[
    "the dark forest",
    "the misty mountains",
    "the old ruins",
    "the quiet hills",
    "the windy heath",
    "the great swamp",
    "the deep valley",
    "the rocky shore",
];

/// What the hero lives in.
pub const HOMES: &[&str] =
    &["house", "cottage", "hut", "cabin", "little room", "home under the roots of a tree", "round house"];

/// What can be lost, found and given.
pub const TREASURES: &[&str] = &[
    "golden key",
    "silver bell",
    "wooden flute",
    "red ball",
    "blue kite",
    "warm scarf",
    "lucky coin",
    "little lantern",
    "music box",
    "green hat",
    "brass compass",
    "picture book",
    "glass marble",
    "ring",
    "small drum",
    "straw basket",
];

/// What one can make with one's own hands.
pub const GIFTS: &[&str] = &[
    "paper kite",
    "wooden flute",
    "picture book",
    "little lantern",
    "paper star",
    "wooden horse",
    "toy boat",
    "painted box",
    "small drum",
    "puppet",
];

/// What can be eaten together.
pub const FOODS: &[&str] = &[
    "apple pie",
    "warm bread and honey",
    "vegetable soup",
    "pancakes",
    "cheese and nuts",
    "strawberry cake",
    "roasted chestnuts",
    "porridge with berries",
    "fresh bread and butter",
    "pears and plums",
];

/// What can grow.
pub const FLOWERS: &[&str] = &["rose", "sunflower", "tulip", "apple tree", "cherry tree", "pumpkin", "lily", "bean"];

/// Colors of things.
pub const COLORS: &[&str] = &["red", "blue", "green", "yellow", "golden", "silver", "white", "purple"];

/// What the weather was like.
pub const WEATHER: &[&str] = &[
    "the sun was shining",
    "a soft rain was falling",
    "the wind was singing in the trees",
    "snow lay on the roofs",
    "the sky was clear and blue",
    "the fog was just lifting",
    "the birds were singing",
    "the leaves were turning yellow",
];

/// When things happened.
pub const TIMES: &[&str] = &[
    "One morning",
    "One day",
    "One evening",
    "One fine day in spring",
    "One cold day in winter",
    "One afternoon",
    "One bright day in summer",
    "One day in autumn",
    "Early one morning",
    "Late one evening",
];

/// How many.
pub const NUMBERS: &[&str] = &["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve"];
