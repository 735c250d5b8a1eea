package bytesize

//go:generate echo a directive is one line, however wide it becomes, because the go tool does not read the one that follows it

// A comment may be as wide as this one, which has exactly one hundred and twenty columns up to its very last full stop.
//
// https://example.com/an/address/cannot/be/wrapped/and/so/it/may/be/as/wide/as/it/has/to/be/even/when/it/is/very/very/wide/indeed
const wide = "and so may code, and a comment behind it, since wrapping those makes nothing easier to read" // such as this comment, here
