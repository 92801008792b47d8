/*
 * What a guest that is replayed writes to its disks
 *
 * The guest writes to its images as always.  blkreplay, through which all goes,
 * reports each write before it and after it.  The first one to a page keeps
 * what it was before; what it is after the last one becomes a version of it
 * with the next checkpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/memalign.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "block/block.h"
#include "block/block_int.h"
#include "system/block-backend.h"
#include "system/replay.h"
#include "replay-checkpoints.h"
#include "replay-disks.h"

#define DISK_PAGE   REPLAY_DISK_PAGE
/* How much is read at once */
#define MAX_BYTES   (1 * MiB)
/* What a page costs that was written to, beside its bytes */
#define ENTRY_SIZE  (sizeof(Written) + 48)
/* The number of a page has that of its disk in the bits from here. */
#define DISK_SHIFT  48
#define PAGE_MASK   ((1ull << DISK_SHIFT) - 1)

/* A page that was written to */
typedef struct Written {
    uint64_t number;
    uint8_t *bytes;             /* NULL: zero */
} Written;

static PageVersions *versions;
static GPtrArray *disks;        /* BlockDriverState of each blkreplay */
static GHashTable *written;     /* Written, by number */
static uint64_t written_size;
static bool failed;

static bool is_blkreplay(BlockDriverState *bs)
{
    return bs && bs->drv && !strcmp(bs->drv->format_name, "blkreplay");
}

static bool writable(BlockBackend *blk)
{
    return blk_get_attached_dev(blk) && blk_is_available(blk) &&
           blk_supports_write_perm(blk);
}

bool replay_disks_supported(Error **errp)
{
    for (BlockBackend *blk = blk_next(NULL); blk; blk = blk_next(blk)) {
        if (writable(blk) && !is_blkreplay(blk_bs(blk))) {
            g_autofree char *device = blk_get_attached_dev_id(blk);

            error_setg(errp, "replay-checkpoints cannot take back what the "
                       "guest writes to the disk of '%s': put it behind a "
                       "blkreplay, or make it read-only", device);
            return false;
        }
    }
    return true;
}

bool replay_disks_any(void)
{
    for (BlockBackend *blk = blk_next(NULL); blk; blk = blk_next(blk)) {
        if (writable(blk)) {
            return true;
        }
    }
    return false;
}

static bool is_there(BlockDriverState *bs)
{
    for (BlockBackend *blk = blk_next(NULL); blk; blk = blk_next(blk)) {
        if (blk_bs(blk) == bs) {
            return true;
        }
    }
    return false;
}

static void free_written(gpointer value)
{
    Written *w = value;

    g_free(w->bytes);
    g_free(w);
}

static void clear_written(void)
{
    g_hash_table_remove_all(written);
    written_size = 0;
}

void replay_disks_start(PageVersions *v)
{
    versions = v;
    failed = false;
    if (!disks) {
        disks = g_ptr_array_new();
        written = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                        free_written);
    }
    clear_written();
}

void replay_disks_stop(void)
{
    versions = NULL;
    if (disks) {
        g_ptr_array_free(disks, true);
        g_hash_table_destroy(written);
        disks = NULL;
        written = NULL;
    }
}

bool replay_disks_failed(void)
{
    return failed;
}

/* The number of the first page of a disk */
static uint64_t disk_pages(BlockDriverState *bs)
{
    guint i;

    if (!g_ptr_array_find(disks, bs, &i)) {
        i = disks->len;
        g_ptr_array_add(disks, bs);
    }
    return (uint64_t)i << DISK_SHIFT;
}

const char *replay_disks_name(uint64_t number)
{
    BlockDriverState *bs = g_ptr_array_index(disks, number >> DISK_SHIFT);

    return is_there(bs) ? bdrv_get_device_name(bs) : "";
}

uint64_t replay_disks_page(uint64_t number)
{
    return number & PAGE_MASK;
}

bool replay_disks_find(const char *name, uint64_t *first, uint64_t *pages)
{
    BlockBackend *blk = *name ? blk_by_name(name) : NULL;
    BlockDriverState *bs = blk ? blk_bs(blk) : NULL;
    int64_t length = is_blkreplay(bs) ? bdrv_getlength(bs) : -1;

    if (length < 0) {
        return false;
    }
    *first = disk_pages(bs);
    *pages = DIV_ROUND_UP(length, DISK_PAGE);
    return true;
}

static bool tracked(void)
{
    return versions && page_versions_any(versions) && !failed;
}

/* Nothing of it can be used any more. */
static void fail(void)
{
    failed = true;
    clear_written();
}

static void set_written(uint64_t number, const void *bytes)
{
    Written *w = g_hash_table_lookup(written, &number);
    bool zero = buffer_is_zero(bytes, DISK_PAGE);

    if (!w) {
        w = g_new0(Written, 1);
        w->number = number;
        g_hash_table_insert(written, &w->number, w);
        written_size += ENTRY_SIZE;
    }
    if (zero && w->bytes) {
        g_clear_pointer(&w->bytes, g_free);
        written_size -= DISK_PAGE;
    } else if (!zero) {
        if (!w->bytes) {
            w->bytes = g_malloc(DISK_PAGE);
            written_size += DISK_PAGE;
        }
        memcpy(w->bytes, bytes, DISK_PAGE);
    }
}

/*
 * Reads the pages that a request is about, some at a time, and calls a
 * function for each that is wanted.
 */
static void coroutine_fn GRAPH_RDLOCK
read_pages(BlockDriverState *bs, int64_t offset, int64_t bytes,
           bool (*wanted)(uint64_t number),
           void (*func)(uint64_t number, const void *bytes))
{
    int64_t length = bdrv_co_getlength(bs->file->bs);
    int64_t end = MIN(QEMU_ALIGN_UP(offset + bytes, DISK_PAGE), length);
    uint64_t first = disk_pages(bs);
    uint8_t *buffer = qemu_blockalign(bs, MAX_BYTES);

    if (length < 0) {
        fail();
    }
    for (int64_t at = QEMU_ALIGN_DOWN(offset, DISK_PAGE);
         at < end && tracked(); at += MAX_BYTES) {
        int64_t size = MIN(MAX_BYTES, end - at);
        int64_t pages = DIV_ROUND_UP(size, DISK_PAGE);
        uint64_t number = first | at / DISK_PAGE;
        int64_t count = 0;

        for (int64_t i = 0; i < pages; i++) {
            count += wanted(number + i);
        }
        if (!count) {
            continue;
        }
        if (!replay_checkpoints_reserve(
                count * (page_versions_cost(versions) + ENTRY_SIZE)) ||
            bdrv_co_pread(bs->file, at, size, buffer, 0) < 0) {
            fail();
        }
        memset(buffer + size, 0, pages * DISK_PAGE - size);
        /* While it was read, another request may have been quicker. */
        for (int64_t i = 0; i < pages && tracked(); i++) {
            if (wanted(number + i)) {
                func(number + i, buffer + i * DISK_PAGE);
            }
        }
    }
    qemu_vfree(buffer);
}

static bool is_unknown(uint64_t number)
{
    return !page_versions_known(versions, number);
}

static void set_first(uint64_t number, const void *bytes)
{
    page_versions_set_first(versions, number, bytes);
}

static bool any_page(uint64_t number)
{
    return true;
}

void coroutine_fn
replay_disk_before_write(BlockDriverState *bs, int64_t offset, int64_t bytes)
{
    if (tracked()) {
        read_pages(bs, offset, bytes, is_unknown, set_first);
    }
}

void coroutine_fn
replay_disk_after_write(BlockDriverState *bs, int64_t offset, int64_t bytes)
{
    if (tracked()) {
        read_pages(bs, offset, bytes, any_page, set_written);
    }
}

uint64_t replay_disks_size(void)
{
    return written_size;
}

uint64_t replay_disks_changed(void)
{
    return written ? g_hash_table_size(written) : 0;
}

static const uint8_t zeroes[DISK_PAGE];

void replay_disks_keep(uint64_t moment)
{
    GHashTableIter iter;
    Written *w;

    g_hash_table_iter_init(&iter, written);
    while (g_hash_table_iter_next(&iter, NULL, (gpointer *)&w)) {
        /* One that failed is as it was. */
        page_versions_set(versions, moment, w->number,
                          w->bytes ? w->bytes : zeroes);
    }
    clear_written();
}

static void add_number(uint64_t number, void *opaque)
{
    g_array_append_val((GArray *)opaque, number);
}

static int compare_numbers(gconstpointer a, gconstpointer b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool put_page(uint64_t number, uint64_t now, uint64_t moment,
                     Error **errp)
{
    BlockDriverState *bs = g_ptr_array_index(disks, number >> DISK_SHIFT);
    int64_t offset = (number & PAGE_MASK) * DISK_PAGE;
    const void *then = page_versions_get(versions, moment, number);
    Written *w = g_hash_table_lookup(written, &number);
    const void *is = w ? w->bytes : page_versions_get(versions, now, number);
    int64_t length, size;
    BdrvChild *child;
    int ret;

    then = then ? then : zeroes;
    is = is ? is : zeroes;
    if (!memcmp(is, then, DISK_PAGE)) {
        return true;
    }
    bdrv_graph_rdlock_main_loop();
    child = bs->file;
    bdrv_graph_rdunlock_main_loop();
    length = bdrv_getlength(bs);
    size = MIN(DISK_PAGE, length - offset);
    ret = length < 0 ? length : bdrv_pwrite(child, offset, size, then, 0);
    if (ret < 0) {
        error_setg(errp, "cannot write to the disk: %s", strerror(-ret));
    }
    return ret >= 0;
}

bool replay_disks_put(uint64_t now, uint64_t moment, Error **errp)
{
    g_autoptr(GArray) numbers = g_array_new(false, false, sizeof(uint64_t));
    GHashTableIter iter;
    Written *w;

    for (guint i = 0; i < disks->len; i++) {
        if (!is_there(g_ptr_array_index(disks, i))) {
            error_setg(errp, "a disk that the guest has written to is gone");
            return false;
        }
    }
    page_versions_between(versions, now, moment, add_number, numbers);
    g_hash_table_iter_init(&iter, written);
    while (g_hash_table_iter_next(&iter, NULL, (gpointer *)&w)) {
        add_number(w->number, numbers);
    }
    g_array_sort(numbers, compare_numbers);
    for (guint i = 0; i < numbers->len; i++) {
        uint64_t number = g_array_index(numbers, uint64_t, i);

        if ((!i || number != g_array_index(numbers, uint64_t, i - 1)) &&
            !put_page(number, now, moment, errp)) {
            return false;
        }
    }
    clear_written();
    return true;
}
