/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-reader.h
 */

#include <string.h>

#include "backtrail/names.h"
#include "guest-names/name-reader.h"
#include "util/random.h"

/* Texts of a message that may have a NUL */
#define MAY_HAVE_NUL    4u

/* What is after the struct of each type */
static const struct layout {
    const char *name;
    size_t size;
    size_t at[3];               /* where the size of each text is, or 0 */
    uint32_t most[3];
    unsigned binary;            /* bits of texts that may have a NUL */
} layouts[] = {
#define AT(type, member) offsetof(struct btrail_guest_##type, member)
#define OF(type) #type, sizeof(struct btrail_guest_##type)
    [BTRAIL_GUEST_HELLO] = { OF(hello), { AT(hello, release_size) },
                             { BTRAIL_GUEST_RELEASE_MAX }, 0 },
    [BTRAIL_GUEST_LISTING] = { OF(listing), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_PROCESS] = {
        OF(process),
        { AT(process, comm_size), AT(process, exe_size),
          AT(process, command_size) },
        { BTRAIL_GUEST_COMM_MAX, BTRAIL_GUEST_PATH_MAX,
          BTRAIL_GUEST_COMMAND_MAX }, MAY_HAVE_NUL,
    },
    [BTRAIL_GUEST_THREAD] = { OF(thread), { AT(thread, comm_size) },
                              { BTRAIL_GUEST_COMM_MAX }, 0 },
    [BTRAIL_GUEST_MAPPING] = {
        OF(mapping), { AT(mapping, path_size), AT(mapping, build_id_size) },
        { BTRAIL_GUEST_PATH_MAX, BTRAIL_GUEST_BUILD_ID_MAX }, 2,
    },
    [BTRAIL_GUEST_FORK] = { OF(fork), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_EXIT] = { OF(exit), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_NAME] = { OF(name), { AT(name, comm_size) },
                            { BTRAIL_GUEST_COMM_MAX }, 0 },
    [BTRAIL_GUEST_SWITCHES] = { OF(switches), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_UP_TO] = { OF(up_to), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_LOST] = { OF(lost), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_SYMBOLS] = { OF(symbols), { AT(symbols, size) },
                               { BTRAIL_GUEST_MESSAGE_MAX }, 0 },
    [BTRAIL_GUEST_FUNCTIONS] = { OF(functions), { AT(functions, size) },
                                 { BTRAIL_GUEST_MESSAGE_MAX }, 0 },
    [BTRAIL_GUEST_FLUSHED] = { OF(flushed), { 0 }, { 0 }, 0 },
    [BTRAIL_GUEST_CONTENT] = { OF(content), { AT(content, size) },
                               { BTRAIL_GUEST_MESSAGE_MAX }, 1 },
};

struct name_reader {
    uint64_t nonce;
    bool begun;
    /* Up to a whole message that is not handled yet */
    uint8_t in[sizeof(struct btrail_guest_header) + BTRAIL_GUEST_MESSAGE_MAX];
    size_t used;
    /* The texts of a message with NULs, and its list */
    char texts[BTRAIL_GUEST_MESSAGE_MAX + 3];
    struct btrail_guest_switch list[BTRAIL_GUEST_SWITCHES_MAX];
};

struct name_reader *name_reader_new(uint64_t nonce)
{
    struct name_reader *r = g_new0(struct name_reader, 1);

    r->nonce = nonce;
    return r;
}

struct name_reader *name_reader_open(struct btrail_guest_open *open,
                                     uint32_t wants)
{
    *open = (struct btrail_guest_open) {
        .magic = BTRAIL_GUEST_MAGIC, .version = BTRAIL_GUEST_VERSION,
        .wants = wants,
    };
    random_bytes(&open->nonce, sizeof(open->nonce));
    return name_reader_new(open->nonce);
}

void name_reader_free(struct name_reader *r)
{
    g_free(r);
}

bool name_reader_begun(const struct name_reader *r)
{
    return r->begun;
}

static char *complain(const struct layout *l, const char *what)
{
    return g_strdup_printf("a message '%s' of the guest's is malformed: %s",
                           l->name, what);
}

/* Copies the texts of a message, which must fill it. */
static char *get_texts(struct name_reader *r, const struct layout *l,
                       const uint8_t *data, size_t size, struct word *w)
{
    size_t at = l->size, used = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(w->text); i++) {
        uint32_t n = 0;

        if (l->at[i]) {
            memcpy(&n, data + l->at[i], sizeof(n));
        }
        if (n > l->most[i] || n > size - at) {
            return complain(l, "a text is too long");
        }
        if (!(l->binary >> i & 1) && memchr(data + at, 0, n)) {
            return complain(l, "a text has a zero byte");
        }
        memcpy(r->texts + used, data + at, n);
        r->texts[used + n] = 0;
        w->text[i] = r->texts + used;
        w->size[i] = n;
        used += n + 1;
        at += n;
    }
    return at == size ? NULL : complain(l, "it is too long");
}

static char *get_switches(struct name_reader *r, const struct layout *l,
                          const uint8_t *data, size_t size, struct word *w)
{
    uint64_t last = 0;

    if (w->switches.n > BTRAIL_GUEST_SWITCHES_MAX ||
        size - l->size != w->switches.n * sizeof(*r->list) ||
        w->switches.cpu >= BTRAIL_GUEST_CPUS_MAX) {
        return complain(l, "it has another number of switches");
    }
    memcpy(r->list, data + l->size, size - l->size);
    for (uint32_t i = 0; i < w->switches.n; i++) {
        if (r->list[i].time < last) {
            return complain(l, "times run backwards");
        }
        last = r->list[i].time;
    }
    w->list = r->list;
    return NULL;
}

/* Is what the numbers say possible? */
static char *check(const struct layout *l, const struct word *w)
{
    const uint32_t known = BTRAIL_MAPPING_READ | BTRAIL_MAPPING_WRITE |
                           BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_SHARED |
                           BTRAIL_MAPPING_FILE | BTRAIL_MAPPING_DELETED;

    switch (w->type) {
    case BTRAIL_GUEST_HELLO:
        return w->hello.version == BTRAIL_GUEST_VERSION ? NULL :
               g_strdup_printf("the guest's backtrail-guest-names speaks "
                               "version %u of its protocol, and this agent "
                               "version %u: install the same release of both",
                               w->hello.version, BTRAIL_GUEST_VERSION);
    case BTRAIL_GUEST_MAPPING:
        return w->mapping.start < w->mapping.end &&
               w->mapping.end <= UINT64_C(1) << 63 &&
               !(w->mapping.flags & ~known) ? NULL :
               complain(l, "no process can have this mapped");
    case BTRAIL_GUEST_LOST:
        return w->lost.what <= BTRAIL_GUEST_LOST_LIST ? NULL :
               complain(l, "what is lost is not known");
    default:
        return NULL;
    }
}

static char *handle(struct name_reader *r, uint16_t type, const uint8_t *data,
                    size_t size, name_reader_fn *fn, void *opaque)
{
    const struct layout *l = &layouts[type];
    struct word w = { .type = type };
    char *why;

    if (size < l->size) {
        return complain(l, "it is cut off");
    }
    memcpy(&w.mapping, data, l->size);    /* the longest of all */
    why = type == BTRAIL_GUEST_SWITCHES ? get_switches(r, l, data, size, &w) :
          get_texts(r, l, data, size, &w);
    if (!why) {
        why = check(l, &w);
    }
    if (!why) {
        fn(opaque, &w);
    }
    return why;
}

/* Is this the HELLO that answers OPEN?  As far as there are bytes of it */
static bool is_hello(const struct name_reader *r, const uint8_t *p, size_t n)
{
    struct {
        struct btrail_guest_header header;
        uint64_t magic;
        uint64_t nonce;
    } want = {
        .header = { .type = BTRAIL_GUEST_HELLO },
        .magic = BTRAIL_GUEST_MAGIC, .nonce = r->nonce,
    };
    size_t skip = sizeof(want.header.size);

    return n <= skip || !memcmp(p + skip, (const uint8_t *)&want + skip,
                                MIN(n, sizeof(want)) - skip);
}

/* Handles whole messages; returns how many bytes they had. */
static size_t handle_all(struct name_reader *r, name_reader_fn *fn,
                         void *opaque, char **why)
{
    size_t at = 0;

    while (!*why && r->used - at > 0) {
        const uint8_t *p = r->in + at;
        struct btrail_guest_header h;

        if (!r->begun && !is_hello(r, p, r->used - at)) {
            at++;
            continue;
        }
        if (r->used - at < sizeof(h)) {
            break;
        }
        memcpy(&h, p, sizeof(h));
        if (h.size > BTRAIL_GUEST_MESSAGE_MAX || !h.type ||
            h.type >= G_N_ELEMENTS(layouts) ||
            (!r->begun && h.size < sizeof(struct btrail_guest_hello))) {
            if (!r->begun) {
                at++;
                continue;
            }
            *why = g_strdup_printf("the guest sends what is no message: type "
                                   "%u, %u bytes", h.type, h.size);
            break;
        }
        if (r->used - at - sizeof(h) < h.size) {
            break;
        }
        r->begun = true;
        *why = handle(r, h.type, p + sizeof(h), h.size, fn, opaque);
        at += sizeof(h) + h.size;
    }
    return at;
}

bool name_reader_feed(struct name_reader *r, const void *data, size_t size,
                      name_reader_fn *fn, void *opaque, char **why)
{
    const uint8_t *p = data;

    *why = NULL;
    while (size && !*why) {
        size_t n = MIN(size, sizeof(r->in) - r->used), done;

        memcpy(r->in + r->used, p, n);
        r->used += n;
        p += n;
        size -= n;
        done = handle_all(r, fn, opaque, why);
        r->used -= done;
        memmove(r->in, r->in + done, r->used);
    }
    return !*why;
}
