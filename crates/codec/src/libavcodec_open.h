/* How a shim opens libavcodec: at run time, so that a program that asks for no codec of it neither loads nor needs it.
 *
 * A library of another major version than the headers has another name and is not opened: structs are those of the headers.
 * Before this file is included, FUNCTIONS(each) names the functions that are used, avcodec_version among them; each has the type
 * that the headers give it. libavutil's are found through libavcodec, which links it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <libavcodec/avcodec.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define LIBRARY "libavcodec.so." TEXT(LIBAVCODEC_VERSION_MAJOR)

struct functions {
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* 0; or below 0, and a text of at most `reason_bytes`, NUL included, at `reason`. The library stays open. */
static int load(struct functions *call, char *reason, int32_t reason_bytes)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        snprintf(reason, (size_t)reason_bytes, "%s", text ? text : LIBRARY " cannot be opened");
        return -1;
    }
    /* POSIX lets a pointer to data be one to a function; C alone does not, hence the copy. */
#define FIND(name)                                                                                          \
    {                                                                                                       \
        void *found = dlsym(library, #name);                                                                \
        if (!found) {                                                                                       \
            snprintf(reason, (size_t)reason_bytes, LIBRARY " has no " #name);                               \
            return -1;                                                                                      \
        }                                                                                                   \
        memcpy(&call->name, &found, sizeof found);                                                          \
    }
    FUNCTIONS(FIND)
#undef FIND
    if (call->avcodec_version() >> 16 != LIBAVCODEC_VERSION_MAJOR) {
        snprintf(reason, (size_t)reason_bytes, LIBRARY " says that it is version %u",
                 call->avcodec_version() >> 16);
        return -1;
    }
    return 0;
}
