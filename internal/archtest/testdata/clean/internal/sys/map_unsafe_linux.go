package sys

import _ "unsafe"
