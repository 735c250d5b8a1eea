package microvm

import _ "unsafe" // build tags hide nothing
