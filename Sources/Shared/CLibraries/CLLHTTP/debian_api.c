#include <api.c>
