/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way back of a replay: see way-back.h
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "replay/way-back.h"
#include "util/search.h"

#define IMAGE       "way-back"
/* Instructions between two marks at first: a second of replay, or less */
#define SPACING     UINT64_C(100000000)
/* Each has the size of the guest's RAM that is not zero. */
#define MAX_MARKS   16

/* Clusters of the image: its header, two levels of reference counts, and the
 * table of its first 8 GiB.  QEMU's docs/interop/qcow2.txt */
#define CLUSTER     65536
#define CLUSTERS    4

struct mark {
    uint64_t icount;
};

struct way_back {
    struct emulator *emulator;
    GArray *marks;              /* of struct mark, in their order */
    uint64_t spacing;
};

static void put32(uint8_t *at, uint32_t n)
{
    n = htobe32(n);
    memcpy(at, &n, sizeof(n));
}

static void put64(uint8_t *at, uint64_t n)
{
    n = htobe64(n);
    memcpy(at, &n, sizeof(n));
}

/* An empty image, so that no other program is needed for it */
static bool make_image(const char *path, GError **error)
{
    g_autofree uint8_t *image = g_malloc0(CLUSTERS * CLUSTER);

    memcpy(image, "QFI\xfb", 4);
    put32(image + 4, 3);                    /* version */
    put32(image + 20, 16);                  /* bits of a cluster */
    put64(image + 24, UINT64_C(8) << 30);   /* size */
    put32(image + 36, 16);                  /* entries of the table */
    put64(image + 40, 3 * CLUSTER);         /* the table */
    put64(image + 48, CLUSTER);             /* reference counts */
    put32(image + 56, 1);                   /* clusters of them */
    put32(image + 96, 4);                   /* bits of one: 1 << 4 */
    put32(image + 100, 104);                /* length of the header */
    put64(image + CLUSTER, 2 * CLUSTER);
    for (unsigned i = 0; i < CLUSTERS; i++) {
        image[2 * CLUSTER + 2 * i + 1] = 1;
    }
    return g_file_set_contents(path, (char *)image, CLUSTERS * CLUSTER, error);
}

struct way_back *way_back_new(struct emulator *e, GError **error)
{
    g_autofree char *path = emulator_path(e, IMAGE);
    struct way_back *w;

    if (!make_image(path, error)) {
        return NULL;
    }
    emulator_add(e, "-drive");
    emulator_add(e, "file=" IMAGE ",format=qcow2,if=none,snapshot=off,"
                 "id=rr-way-back");
    w = g_new0(struct way_back, 1);
    w->emulator = e;
    w->marks = g_array_new(FALSE, FALSE, sizeof(struct mark));
    w->spacing = SPACING;
    return w;
}

void way_back_free(struct way_back *w)
{
    if (w) {
        g_array_unref(w->marks);
        g_free(w);
    }
}

/* The human monitor prints nothing if all is well. */
static bool run(struct way_back *w, const char *command, uint64_t icount,
                GError **error)
{
    g_autofree char *line = g_strdup_printf("%s i%" G_GUINT64_FORMAT, command,
                                            icount);
    g_autofree char *text = emulator_hmp(w->emulator, line, error);

    if (text && *g_strstrip(text)) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_COMMAND,
                    "%s: %s", command, text);
        return false;
    }
    return text;
}

static uint64_t mark_at(const struct way_back *w, unsigned i)
{
    return g_array_index(w->marks, struct mark, i).icount;
}

/* Deletes each second mark, but never the first. */
static bool thin_out(struct way_back *w, GError **error)
{
    w->spacing *= 2;
    for (unsigned i = 1; i < w->marks->len; i++) {
        if (!run(w, "delvm", mark_at(w, i), error)) {
            return false;
        }
        g_array_remove_index(w->marks, i);
    }
    return true;
}

bool way_back_mark(struct way_back *w, uint64_t icount, GError **error)
{
    struct mark mark = { icount };

    if (!run(w, "savevm", icount, error)) {
        return false;
    }
    g_array_append_val(w->marks, mark);
    return w->marks->len <= MAX_MARKS || thin_out(w, error);
}

uint64_t way_back_next(const struct way_back *w)
{
    return mark_at(w, w->marks->len - 1) + w->spacing;
}

bool way_back_load(struct way_back *w, uint64_t at, uint64_t icount,
                   GError **error)
{
    unsigned n = BTRAIL_UP_TO((struct mark *)w->marks->data, w->marks->len,
                              struct mark, icount, icount);

    /* The first mark is at 0. */
    if (at <= icount && mark_at(w, n - 1) <= at) {
        return true;
    }
    return run(w, "loadvm", mark_at(w, n - 1), error);
}

