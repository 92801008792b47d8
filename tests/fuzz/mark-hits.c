/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: marks in the code that a guest executes, and in its records
 *
 * The input is a sequence of steps of 6 bytes: a piece of a content, which
 * follows, an item of code, a record or an event.  A mark that is found must be
 * in the code that a simple model has there.
 */

#include <glib.h>
#include <string.h>

#include "drain/mark-hits.h"
#include "fuzz.h"

#define STEP        6
#define VCPUS       2
#define PAGES       4
#define CONTENTS    16
#define BASE        UINT64_C(0x7fff00000000)
#define SPACE       UINT64_C(0x1000)

/* All that was reported of a page, and of the contents */
static struct {
    GArray *items[VCPUS][PAGES];    /* of struct btrail_code_item */
    uint8_t contents[CONTENTS][MARK_PAGE];
    bool sent[CONTENTS];
} model;

static unsigned n_hits;

static void hit(void *opaque, unsigned i, unsigned vcpu, uint64_t cr3)
{
    fuzz_require(i < 2 && cr3 == SPACE);
    n_hits++;
}

static void begin(void)
{
    for (unsigned v = 0; v < VCPUS; v++) {
        for (unsigned p = 0; p < PAGES; p++) {
            model.items[v][p] = g_array_new(FALSE, FALSE,
                                            sizeof(struct btrail_code_item));
        }
    }
    memset(model.contents, 0, sizeof(model.contents));
    memset(model.sent, 0, sizeof(model.sent));
}

static void end(void)
{
    for (unsigned i = 0; i < VCPUS * PAGES; i++) {
        g_array_unref(model.items[i / PAGES][i % PAGES]);
    }
}

/* A byte of code, before a record; -1 if it is not known */
static int byte_at(unsigned vcpu, uint64_t index, uint64_t address)
{
    uint64_t page = (address - BASE) / MARK_PAGE;
    const struct btrail_code_item *best = NULL;
    GArray *items = page < PAGES ? model.items[vcpu][page] : NULL;

    for (guint i = 0; items && i < items->len; i++) {
        const struct btrail_code_item *item =
            &g_array_index(items, struct btrail_code_item, i);

        if (item->index <= index && (!best || item->index >= best->index)) {
            best = item;
        }
    }
    return best && model.sent[best->number] ?
           model.contents[best->number][address % MARK_PAGE] : -1;
}

/* Is the mark there, or after the record if it continues there? */
static void check_mark(unsigned vcpu, uint64_t index, const struct mark *mark)
{
    uint8_t bytes[MARK_SIZE_MAX];
    size_t size = mark->to - mark->from;
    struct mark same;

    fuzz_require(size <= sizeof(bytes));
    for (size_t i = 0; i < size; i++) {
        uint64_t address = mark->from + i;
        int byte = byte_at(vcpu, index, address);

        if (byte < 0 && address / MARK_PAGE != mark->from / MARK_PAGE) {
            byte = byte_at(vcpu, index + 1, address);
        }
        fuzz_require(byte >= 0);
        bytes[i] = byte;
    }
    fuzz_require(mark_decode(bytes, size, mark->from, &same));
    fuzz_require(!strcmp(same.name, mark->name));
}

/* Puts some bytes of the input into a content that was not sent. */
static void fill_content(unsigned number, unsigned at, const uint8_t *bytes,
                         size_t n)
{
    if (!model.sent[number]) {
        at %= MARK_PAGE;
        memcpy(model.contents[number] + at, bytes, MIN(n, MARK_PAGE - at));
    }
}

static void take_page(struct marked_code *c, struct mark_hits *h,
                      unsigned vcpu, const uint8_t *step)
{
    const struct btrail_code_item item = {
        .type = BTRAIL_CODE_PAGE, .index = step[2], .cr3 = SPACE,
        .linear = BASE + step[3] % PAGES * MARK_PAGE,
        .number = step[4] % CONTENTS,
    };

    if (item.number) {
        marked_code_item(c, vcpu, &item, NULL);
        mark_hits_code(h, vcpu, &item, NULL);
        g_array_append_val(model.items[vcpu][step[3] % PAGES], item);
    }
}

static void take_content(struct marked_code *c, struct mark_hits *h,
                         unsigned number)
{
    const struct btrail_code_item item = {
        .type = BTRAIL_CODE_BYTES, .number = number,
    };

    if (number) {
        model.sent[number] = true;
        marked_code_item(c, 0, &item, model.contents[number]);
        mark_hits_code(h, 0, &item, model.contents[number]);
    }
}

static void take_lost(struct marked_code *c, struct mark_hits *h,
                      unsigned vcpu)
{
    const struct btrail_code_item item = { .type = BTRAIL_CODE_LOST };

    marked_code_item(c, vcpu, &item, NULL);
    mark_hits_code(h, vcpu, &item, NULL);
    for (unsigned p = 0; p < PAGES; p++) {
        g_array_set_size(model.items[vcpu][p], 0);
    }
}

static void take_record(struct marked_code *c, struct mark_hits *h,
                        unsigned vcpu, const uint8_t *step)
{
    uint64_t from = BASE + (step[3] << 8 | step[4]);
    uint64_t to = from + (int8_t)step[5];
    struct mark mark;

    if (marked_code_find(c, vcpu, step[2], SPACE, from, to, &mark)) {
        fuzz_accepted();
        check_mark(vcpu, step[2], &mark);
    }
    mark_hits_record(h, vcpu, step[2], SPACE, from, to);
}

static void take_event(struct mark_hits *h, unsigned vcpu,
                       const uint8_t *step)
{
    const struct btrail_event event = {
        .type = step[2] % 8, .reason = step[3], .data = { step[4] },
    };

    mark_hits_event(h, vcpu, &event);
    if (step[5] == 0xff) {
        mark_hits_lost(h, vcpu);
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static const char *const texts[] = { "mark:one", "mark:>=5" };
    struct mark_wanted wanted[2];
    struct marked_code *c;
    struct mark_hits *h;

    begin();
    for (unsigned i = 0; i < 2; i++) {
        mark_wanted_parse(texts[i], &wanted[i]);
    }
    c = marked_code_new(wanted, 2);
    h = mark_hits_new(wanted, 2, hit, NULL);
    mark_hits_set_vcpus(h, size % 2 ? 1 : VCPUS);
    for (size_t used; size >= STEP; data += used, size -= used) {
        unsigned vcpu = data[1] % VCPUS;

        used = STEP;
        switch (data[0] % 6) {
        case 0:
            used += MIN(size - STEP, data[4]);
            fill_content(data[1] % CONTENTS, data[2] << 8 | data[3],
                         data + STEP, used - STEP);
            break;
        case 1:
            take_content(c, h, data[1] % CONTENTS);
            break;
        case 2:
            take_page(c, h, vcpu, data);
            break;
        case 3:
            take_lost(c, h, vcpu);
            break;
        case 4:
            take_record(c, h, vcpu, data);
            break;
        default:
            take_event(h, vcpu, data);
            break;
        }
    }
    mark_hits_free(h);
    marked_code_free(c);
    mark_wanted_clear(&wanted[0]);
    mark_wanted_clear(&wanted[1]);
    end();
    return 0;
}
