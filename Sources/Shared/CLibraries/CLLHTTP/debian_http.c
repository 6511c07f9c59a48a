#include <http.c>
