// The strict half of the generated parser: what follows a last request on a connection is an error, not a request.
#define LLHTTP_STRICT_MODE 1
#include <llhttp.c>
