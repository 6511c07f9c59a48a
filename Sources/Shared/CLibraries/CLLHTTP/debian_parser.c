#include <llhttp.c>
