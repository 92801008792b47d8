/*
 * Checkpoints of a replay, in memory
 *
 * While a replay runs forward, what the guest is like is kept from time to
 * time: the state of its devices as migration would send it, and those pages
 * of its memory that have changed.  Going to a place is going to the last
 * checkpoint before it, and running from there.
 *
 * Everything here runs in the main loop, with the replay mutex and the BQL:
 * the vCPU is between two slices, and what cpu_exec() keeps elsewhere is in
 * its state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-replay-checkpoints.h"
#include "qapi/visitor.h"
#include "block/aio-wait.h"
#include "block/block.h"
#include "block/block_int.h"
#include "exec/exec-all.h"
#include "exec/ram_addr.h"
#include "exec/target_page.h"
#include "hw/boards.h"
#include "hw/qdev-core.h"
#include "io/channel-buffer.h"
#include "migration/blocker.h"
#include "migration/global_state.h"
#include "migration/qemu-file.h"
#include "migration/savevm.h"
#include "monitor/monitor.h"
#include "qom/object_interfaces.h"
#include "system/block-backend.h"
#include "system/cpu-timers.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "system/system.h"
#include "checkpoints-file.h"
#include "page-versions.h"
#include "replay-checkpoints.h"
#include "replay-disks.h"
#include "replay-internal.h"
#include "written-pages.h"

#define DEFAULT_INTERVAL_MS 40
#define DEFAULT_MEMORY      (1 * GiB)
/* How long to wait when the guest has requests under way */
#define RETRY_MS            1
/* Memory of which it is worth to know that none of it is dirty */
#define MANY_PAGES          (64 * TARGET_PAGE_SIZE)
/* What qemu_save_device_state() writes before the state */
#define STATE_HEADER        8

#define TYPE_REPLAY_CHECKPOINTS "replay-checkpoints"
OBJECT_DECLARE_SIMPLE_TYPE(ReplayCheckpoints, REPLAY_CHECKPOINTS)

struct ReplayCheckpoints {
    Object parent;

    uint32_t interval_ms;
    uint64_t memory;
    bool skip;

    Notifier machine_done;
    Error *blocker;
    VMChangeStateEntry *change;
    QEMUTimer *timer;
    GPtrArray *list;            /* Checkpoint, in the order of icount */
    PageVersions *ram;
    PageVersions *disks;
    CheckpointsFile file;       /* some were loaded from */
    uint64_t states_size;
    /*
     * The one that the guest has come from last; its memory differs from it in
     * the pages that are set, and those that are dirty.
     */
    Checkpoint *last;
    unsigned long *changed;
    unsigned long changed_bits;
    /* Host time that the guest has run since, without the current run */
    int64_t ran_ns;
    int64_t runs_since;
    /* Merging has left them about this far apart, at least. */
    int64_t nearest_ns;
    uint64_t merged;
    bool full;
    /* Intervals that the way back has left out, and those that it has not */
    uint64_t skipped;
    uint64_t searched;
};

static ReplayCheckpoints *checkpoints;
static bool loading;

bool replay_loads_checkpoint(void)
{
    return loading;
}

/* Memory ------------------------------------------------------------------ */

static bool kept(RAMBlock *block)
{
    return qemu_ram_is_migratable(block);
}

/* Adds the pages that are dirty; of many, most often none is. */
static void add_dirty(ReplayCheckpoints *s, DirtyBitmapSnapshot *snapshot,
                      ram_addr_t at, ram_addr_t size)
{
    if (!cpu_physical_memory_snapshot_get_dirty(snapshot, at, size)) {
        return;
    }
    for (ram_addr_t end = at + size; at < end; at += TARGET_PAGE_SIZE) {
        if (cpu_physical_memory_snapshot_get_dirty(snapshot, at,
                                                   TARGET_PAGE_SIZE)) {
            set_bit(at >> TARGET_PAGE_BITS, s->changed);
        }
    }
}

/*
 * Adds the pages that were written to since this was called last to those
 * that have changed.
 */
static void collect_dirty(ReplayCheckpoints *s)
{
    unsigned long bits = 0;
    RAMBlock *block;

    RCU_READ_LOCK_GUARD();
    RAMBLOCK_FOREACH(block) {
        bits = MAX(bits,
                   (block->offset + block->max_length) >> TARGET_PAGE_BITS);
    }
    if (bits > s->changed_bits) {
        s->changed = bitmap_zero_extend(s->changed, s->changed_bits, bits);
        s->changed_bits = bits;
    }
    RAMBLOCK_FOREACH(block) {
        g_autofree DirtyBitmapSnapshot *snapshot = NULL;
        ram_addr_t end = block->offset + block->used_length;

        if (!kept(block)) {
            continue;
        }
        snapshot = cpu_physical_memory_snapshot_and_clear_dirty(
            block->mr, 0, block->used_length, DIRTY_MEMORY_MIGRATION);
        for (ram_addr_t at = block->offset; at < end; at += MANY_PAGES) {
            add_dirty(s, snapshot, at, MIN(end - at, MANY_PAGES));
        }
    }
}

static void all_changed(ReplayCheckpoints *s)
{
    RAMBlock *block;

    collect_dirty(s);
    RCU_READ_LOCK_GUARD();
    RAMBLOCK_FOREACH(block) {
        if (kept(block)) {
            bitmap_set(s->changed, block->offset >> TARGET_PAGE_BITS,
                       block->used_length >> TARGET_PAGE_BITS);
        }
    }
}

static void set_changed(uint64_t page, void *opaque)
{
    ReplayCheckpoints *s = opaque;

    assert(page < s->changed_bits);
    set_bit(page, s->changed);
}

/* Calls a function for each page that has changed. */
static void for_all_changed(ReplayCheckpoints *s,
                            void (*func)(ReplayCheckpoints *s, RAMBlock *block,
                                         ram_addr_t addr, Checkpoint *c),
                            Checkpoint *c)
{
    RAMBlock *block;

    RCU_READ_LOCK_GUARD();
    RAMBLOCK_FOREACH(block) {
        unsigned long page = block->offset >> TARGET_PAGE_BITS;
        unsigned long end = (block->offset + block->used_length) >>
                            TARGET_PAGE_BITS;

        if (!kept(block)) {
            continue;
        }
        for (page = find_next_bit(s->changed, end, page); page < end;
             page = find_next_bit(s->changed, end, page + 1)) {
            func(s, block, (ram_addr_t)page << TARGET_PAGE_BITS, c);
        }
    }
}

static void keep_page(ReplayCheckpoints *s, RAMBlock *block, ram_addr_t addr,
                      Checkpoint *c)
{
    page_versions_copy(s->ram, c->icount, addr >> TARGET_PAGE_BITS,
                       ramblock_ptr(block, addr - block->offset));
}

/* Where nothing is known yet, zero is what a page is taken to be. */
static void unmark_zero(ReplayCheckpoints *s, RAMBlock *block, ram_addr_t addr,
                        Checkpoint *c)
{
    if (buffer_is_zero(ramblock_ptr(block, addr - block->offset),
                       TARGET_PAGE_SIZE)) {
        clear_bit(addr >> TARGET_PAGE_BITS, s->changed);
    }
}

static void put_page(ReplayCheckpoints *s, RAMBlock *block, ram_addr_t addr,
                     Checkpoint *c)
{
    const void *then = page_versions_get(s->ram, c->icount,
                                         addr >> TARGET_PAGE_BITS);
    void *now = ramblock_ptr(block, addr - block->offset);

    if (then ? !memcmp(now, then, TARGET_PAGE_SIZE)
             : buffer_is_zero(now, TARGET_PAGE_SIZE)) {
        return;
    }
    if (!cpu_physical_memory_get_dirty_flag(addr, DIRTY_MEMORY_CODE)) {
        tb_invalidate_phys_range(addr, addr + TARGET_PAGE_SIZE - 1);
    }
    if (then) {
        memcpy(now, then, TARGET_PAGE_SIZE);
    } else {
        memset(now, 0, TARGET_PAGE_SIZE);
    }
    cpu_physical_memory_set_dirty_flag(addr, DIRTY_MEMORY_VGA);
}

static GArray *save_blocks(void)
{
    GArray *blocks = g_array_new(false, true, sizeof(BlockState));
    RAMBlock *block;

    RCU_READ_LOCK_GUARD();
    RAMBLOCK_FOREACH(block) {
        if (kept(block)) {
            BlockState b = {
                .offset = block->offset,
                .length = block->used_length,
            };

            pstrcpy(b.id, sizeof(b.id), block->idstr);
            g_array_append_val(blocks, b);
        }
    }
    return blocks;
}

/* Makes the blocks of RAM what they were; they differ only in their length. */
static bool load_blocks(GArray *blocks, Error **errp)
{
    unsigned found = 0;
    RAMBlock *block;

    RCU_READ_LOCK_GUARD();
    RAMBLOCK_FOREACH(block) {
        BlockState *b = NULL;

        if (!kept(block)) {
            continue;
        }
        for (guint i = 0; i < blocks->len && !b; i++) {
            b = &g_array_index(blocks, BlockState, i);
            if (b->offset != block->offset || strcmp(b->id, block->idstr)) {
                b = NULL;
            }
        }
        if (!b) {
            error_setg(errp, "the checkpoint has no RAM '%s'", block->idstr);
            return false;
        }
        if (b->length != block->used_length &&
            qemu_ram_resize(block, b->length, errp) < 0) {
            return false;
        }
        found++;
    }
    if (found != blocks->len) {
        error_setg(errp, "RAM that the checkpoint has is gone");
        return false;
    }
    return true;
}

/* Requests ---------------------------------------------------------------- */

/*
 * Ends the requests of the guest.  When, and what becomes of them, makes no
 * difference: the state that they belong to is about to be replaced.
 */
static void end_requests(void)
{
    replay_flush_events();
    while (replay_requests_under_way()) {
        aio_poll(qemu_get_aio_context(), true);
        replay_flush_events();
    }
}

/* Checkpoints ------------------------------------------------------------- */

static Checkpoint *nth(ReplayCheckpoints *s, guint i)
{
    return g_ptr_array_index(s->list, i);
}

/* The number of checkpoints at or before a place */
static guint until(ReplayCheckpoints *s, int64_t icount)
{
    guint low = 0;
    guint high = s->list->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;

        if (nth(s, middle)->icount <= icount) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t checkpoint_size(const Checkpoint *c)
{
    return sizeof(*c) + c->blocks->len * sizeof(BlockState) + c->state_size +
           written_pages_size(c->written);
}

static uint64_t used(ReplayCheckpoints *s)
{
    return s->states_size + page_versions_size(s->ram) +
           page_versions_size(s->disks) + replay_disks_size() + s->file.size;
}

static void forget_all(ReplayCheckpoints *s)
{
    for (guint i = 0; i < s->list->len; i++) {
        checkpoint_free(nth(s, i));
    }
    g_ptr_array_set_size(s->list, 0);
    page_versions_free(s->ram);
    page_versions_free(s->disks);
    checkpoints_file_unmap(&s->file);
    s->ram = page_versions_new(TARGET_PAGE_SIZE);
    s->disks = page_versions_new(REPLAY_DISK_PAGE);
    replay_disks_start(s->disks);
    s->states_size = 0;
    s->nearest_ns = 0;
    s->last = NULL;
}

/* The interval before a checkpoint begins where one before it did. */
static void join_written(ReplayCheckpoints *s, Checkpoint *c,
                         const Checkpoint *before)
{
    WrittenPages *both = written_pages_union(before->written, c->written);

    s->states_size -= written_pages_size(c->written);
    written_pages_free(c->written);
    c->written = both;
    s->states_size += written_pages_size(c->written);
}

/*
 * Merges the interval that is shortest together with the next one into one.
 * Returns whether there was any that may be: removing one that was loaded
 * would give back nothing, since its pages are in the file.
 */
static bool merge_one(ReplayCheckpoints *s)
{
    guint best = 0;
    int64_t shortest = INT64_MAX;
    Checkpoint *c;

    for (guint i = 1; i + 1 < s->list->len; i++) {
        int64_t ns = nth(s, i)->ran_ns + nth(s, i + 1)->ran_ns;

        if (nth(s, i) != s->last && !nth(s, i)->loaded && ns < shortest) {
            shortest = ns;
            best = i;
        }
    }
    if (!best) {
        return false;
    }
    c = nth(s, best);
    nth(s, best + 1)->ran_ns = shortest;
    join_written(s, nth(s, best + 1), c);
    page_versions_remove(s->ram, c->icount);
    page_versions_remove(s->disks, c->icount);
    g_ptr_array_remove_index(s->list, best);
    s->states_size -= checkpoint_size(c);
    checkpoint_free(c);
    s->nearest_ns = MAX(s->nearest_ns, shortest / 2);
    s->merged++;
    return true;
}

/*
 * Devices may read a clock when they are saved or loaded, which must not take
 * events from the log.
 */
static void set_replay_state(const ReplayState *state)
{
    if (replay_state.current_event != state->current_event) {
        fseek(replay_file, state->file_offset, SEEK_SET);
    }
    replay_state = *state;
}

static bool save_state(Checkpoint *c)
{
    QIOChannelBuffer *channel = qio_channel_buffer_new(32 * KiB);
    QEMUFile *f = qemu_file_new_output(QIO_CHANNEL(channel));
    int ret;

    replay_state.file_offset = ftell(replay_file);
    c->replay = replay_state;
    global_state_store();
    ret = qemu_save_device_state(f);
    if (!ret) {
        ret = qemu_fflush(f);
    }
    if (!ret) {
        c->state_size = channel->usage;
        c->state = g_memdup2(channel->data, channel->usage);
    }
    qemu_fclose(f);
    object_unref(OBJECT(channel));
    set_replay_state(&c->replay);
    return !ret;
}

static bool load_state(Checkpoint *c, Error **errp)
{
    QIOChannelBuffer *channel = qio_channel_buffer_new(c->state_size);
    QEMUFile *f;
    int ret;

    memcpy(channel->data, c->state, c->state_size);
    channel->usage = c->state_size;
    f = qemu_file_new_input(QIO_CHANNEL(channel));
    qemu_file_skip(f, 0);
    for (int i = 0; i < STATE_HEADER; i++) {
        qemu_get_byte(f);
    }
    ret = qemu_load_device_state(f);
    qemu_fclose(f);
    object_unref(OBJECT(channel));
    set_replay_state(&c->replay);
    if (ret < 0) {
        error_setg(errp, "cannot load the state of a checkpoint: %s",
                   strerror(-ret));
    }
    return ret >= 0;
}

static int64_t now_ns(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_REALTIME);
}

/* The guest is at a checkpoint: from here on counts what is written. */
static void at_checkpoint(ReplayCheckpoints *s, Checkpoint *c)
{
    bitmap_zero(s->changed, s->changed_bits);
    s->last = c;
    s->ran_ns = 0;
    s->runs_since = now_ns();
    if (s->skip) {
        written_pages_start();
    }
}

static bool reserve(ReplayCheckpoints *s, uint64_t bytes, bool merge)
{
    while (bytes > s->memory || used(s) > s->memory - bytes) {
        if (!merge || !merge_one(s)) {
            return false;
        }
    }
    return true;
}

bool replay_checkpoints_reserve(uint64_t bytes)
{
    return reserve(checkpoints, bytes, true);
}

/*
 * Makes room for a checkpoint with all that has changed.  The state of devices
 * takes about what it took in the one before.
 */
static bool make_room(ReplayCheckpoints *s, bool merge)
{
    uint64_t need = 64 * KiB + (s->last ? s->last->state_size : 0) +
                    written_pages_cost() +
                    page_versions_cost(s->ram) *
                    bitmap_count_one(s->changed, s->changed_bits) +
                    page_versions_cost(s->disks) * replay_disks_changed();

    return reserve(s, need, merge);
}

static void take(ReplayCheckpoints *s, guint i)
{
    Checkpoint *c;
    bool at_end = i == s->list->len;

    collect_dirty(s);
    /* Merging is only worth it for one at the end. */
    s->full = !make_room(s, at_end);
    if (s->full) {
        return;
    }
    c = g_new0(Checkpoint, 1);
    c->icount = replay_get_current_icount();
    c->ran_ns = s->ran_ns + now_ns() - s->runs_since;
    c->blocks = save_blocks();
    c->written = written_pages_get();
    cpu_disable_ticks();
    if (!save_state(c)) {
        cpu_enable_ticks();
        checkpoint_free(c);
        return;
    }
    cpu_enable_ticks();
    page_versions_begin(s->ram, c->icount);
    page_versions_begin(s->disks, c->icount);
    replay_disks_keep(c->icount);
    for_all_changed(s, keep_page, c);
    page_versions_set_copies();
    i = until(s, c->icount);
    if (i < s->list->len) {
        Checkpoint *next = nth(s, i);

        next->ran_ns = MAX(next->ran_ns - c->ran_ns, 0);
    }
    g_ptr_array_insert(s->list, i, c);
    s->states_size += checkpoint_size(c);
    at_checkpoint(s, c);
}

/*
 * Is a checkpoint wanted here?  Where there are some already, only if the
 * guest has come from the one before, and the next one is far.
 */
static bool wanted(ReplayCheckpoints *s, guint i)
{
    int64_t interval = (int64_t)s->interval_ms * SCALE_MS;
    int64_t ran = s->ran_ns + now_ns() - s->runs_since;

    if (nth(s, i - 1)->icount == replay_get_current_icount()) {
        return false;
    }
    return i == s->list->len ||
           (nth(s, i - 1) == s->last && ran >= interval &&
            nth(s, i)->ran_ns - ran >= interval / 2);
}

/* Keeps all of the memory. */
static void take_first(ReplayCheckpoints *s)
{
    if (replay_can_snapshot() && !replay_requests_under_way()) {
        all_changed(s);
        for_all_changed(s, unmark_zero, NULL);
        take(s, 0);
        if (s->full) {
            warn_report_once("replay-checkpoints: %" PRIu64 " MiB are too "
                             "little for the memory of the guest",
                             s->memory / MiB);
        }
    }
}

static void timer_fired(void *opaque)
{
    ReplayCheckpoints *s = opaque;
    int64_t next = s->interval_ms;
    guint i;

    if (!runstate_is_running() || replay_mode != REPLAY_MODE_PLAY ||
        replay_is_diverted()) {
        return;
    }
    if (replay_disks_failed()) {
        warn_report("replay-checkpoints: what the guest has written to its "
                    "disks could not be kept; there is no way back to before");
        forget_all(s);
    }
    i = until(s, replay_get_current_icount());
    if (i == s->list->len) {
        /* What is nearer than those that are there would be merged soon. */
        next = MAX(next, s->nearest_ns / SCALE_MS);
    }
    if (!s->list->len) {
        take_first(s);
    } else if (i && wanted(s, i)) {
        if (replay_can_snapshot() && !replay_requests_under_way()) {
            take(s, i);
        } else {
            next = RETRY_MS;
        }
    }
    timer_mod(s->timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + next);
}

static void state_changed(void *opaque, bool running, RunState state)
{
    ReplayCheckpoints *s = opaque;

    if (!running) {
        s->ran_ns += now_ns() - s->runs_since;
        s->runs_since = now_ns();
        timer_del(s->timer);
        return;
    }
    s->runs_since = now_ns();
    if (!s->list->len) {
        take_first(s);
    }
    timer_mod(s->timer,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + s->interval_ms);
}

int64_t replay_checkpoints_find(int64_t icount)
{
    ReplayCheckpoints *s = checkpoints;
    guint i;

    if (!s || icount < 0 || replay_disks_failed()) {
        return -1;
    }
    /*
     * At a checkpoint, some of what happens between two instructions may have
     * happened already, but not before the guest has started.
     */
    i = until(s, icount ? icount - 1 : 0);
    return i ? nth(s, i - 1)->icount : -1;
}

static void load_memory(ReplayCheckpoints *s, Checkpoint *c)
{
    collect_dirty(s);
    page_versions_between(s->ram, s->last->icount, c->icount, set_changed, s);
    for_all_changed(s, put_page, c);
    at_checkpoint(s, c);
}

bool replay_checkpoints_load(int64_t icount, Error **errp)
{
    ReplayCheckpoints *s = checkpoints;
    Checkpoint *c = nth(s, until(s, icount) - 1);
    bool loaded;

    assert(c->icount == icount);
    vm_stop(RUN_STATE_RESTORE_VM);
    end_requests();
    if (!replay_disks_put(s->last->icount, c->icount, errp)) {
        return false;
    }
    loading = true;
    qemu_system_reset(SHUTDOWN_CAUSE_SNAPSHOT_LOAD);
    loaded = load_blocks(c->blocks, errp);
    if (loaded) {
        load_memory(s, c);
        loaded = load_state(c, errp);
    }
    loading = false;
    /* What was done in a diversion is undone. */
    replay_diverted = false;
    return loaded;
}

int64_t replay_checkpoints_skip(int64_t icount)
{
    ReplayCheckpoints *s = checkpoints;
    guint i = s ? until(s, icount) : 0;
    /* Before one that is not the beginning, something else can be known. */
    guint first;

    if (!i || nth(s, i - 1)->icount != icount) {
        return icount;
    }
    first = nth(s, 0)->icount ? 1 : 0;
    for (i--; s->skip && i > first &&
              !written_pages_can_stop(nth(s, i)->written); i--) {
        s->skipped++;
    }
    s->searched += i > 0;
    return nth(s, i)->icount;
}

bool replay_checkpoints_active(void)
{
    return checkpoints;
}

void replay_checkpoints_forget(void)
{
    ReplayCheckpoints *s = checkpoints;

    if (!s || !s->last || loading) {
        return;
    }
    if (replay_disks_any()) {
        forget_all(s);
    } else {
        all_changed(s);
        written_pages_lose();
        s->ran_ns = 0;
        s->runs_since = now_ns();
    }
}

static ReplayCheckpoints *get_object(Error **errp)
{
    if (!checkpoints) {
        error_setg(errp, "there is no object " TYPE_REPLAY_CHECKPOINTS);
    }
    return checkpoints;
}

ReplayCheckpointsInfo *qmp_query_replay_checkpoints(Error **errp)
{
    ReplayCheckpoints *s = get_object(errp);
    ReplayCheckpointsInfo *info;

    if (!s) {
        return NULL;
    }
    info = g_new0(ReplayCheckpointsInfo, 1);
    info->interval_ms = s->interval_ms;
    info->memory_limit = s->memory;
    info->memory = used(s);
    info->merged = s->merged;
    info->full = s->full;
    info->skipped = s->skipped;
    info->searched = s->searched;
    for (guint i = s->list->len; i > 0; i--) {
        QAPI_LIST_PREPEND(info->icounts, nth(s, i - 1)->icount);
    }
    return info;
}

/* Files ------------------------------------------------------------------- */

void qmp_replay_checkpoints_save(const char *fdname, Error **errp)
{
    int fd = monitor_get_fd(monitor_cur(), fdname, errp);
    ReplayCheckpoints *s = fd < 0 ? NULL : get_object(errp);

    if (s && (!s->list->len || replay_disks_failed())) {
        error_setg(errp, "there are no checkpoints");
    } else if (s && runstate_is_running()) {
        error_setg(errp, "stop the guest first");
    } else if (s) {
        const CheckpointSet set = { s->list, s->ram, s->disks };

        checkpoints_file_write(fd, &set, errp);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* The guest is at the first one. */
static void use_set(ReplayCheckpoints *s, const CheckpointSet *set,
                    CheckpointsFile file)
{
    forget_all(s);
    g_ptr_array_free(s->list, true);
    page_versions_free(s->ram);
    page_versions_free(s->disks);
    s->list = set->list;
    s->ram = set->ram;
    s->disks = set->disks;
    s->file = file;
    for (guint i = 0; i < s->list->len; i++) {
        s->states_size += checkpoint_size(nth(s, i));
    }
    replay_disks_start(s->disks);
    collect_dirty(s);
    at_checkpoint(s, nth(s, 0));
}

static void free_set(CheckpointSet *set)
{
    for (guint i = 0; i < set->list->len; i++) {
        checkpoint_free(g_ptr_array_index(set->list, i));
    }
    g_ptr_array_free(set->list, true);
    page_versions_free(set->ram);
    page_versions_free(set->disks);
}

static void load(ReplayCheckpoints *s, int fd, Error **errp)
{
    CheckpointSet set = {
        .list = g_ptr_array_new(),
        .ram = page_versions_new(TARGET_PAGE_SIZE),
        .disks = page_versions_new(REPLAY_DISK_PAGE),
    };
    CheckpointsFile file = { NULL };

    if (checkpoints_file_read(fd, s->memory, &set, &file, errp)) {
        use_set(s, &set, file);
    } else {
        free_set(&set);
        checkpoints_file_unmap(&file);
    }
}

void qmp_replay_checkpoints_load(const char *fdname, Error **errp)
{
    int fd = monitor_get_fd(monitor_cur(), fdname, errp);
    ReplayCheckpoints *s = fd < 0 ? NULL : get_object(errp);

    if (s && (s->list->len || runstate_is_running())) {
        error_setg(errp, "checkpoints can only be loaded before the guest "
                   "runs");
    } else if (s) {
        load(s, fd, errp);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* The object -------------------------------------------------------------- */

static bool set_up(ReplayCheckpoints *s, Error **errp)
{
    if (replay_mode != REPLAY_MODE_PLAY) {
        error_setg(errp, TYPE_REPLAY_CHECKPOINTS " needs -icount rr=replay");
        return false;
    }
    if (!replay_disks_supported(errp)) {
        return false;
    }
    error_setg(&s->blocker, TYPE_REPLAY_CHECKPOINTS " uses what tells which "
               "memory is dirty");
    if (migrate_add_blocker(&s->blocker, errp) < 0) {
        return false;
    }
    if (!memory_global_dirty_log_start(GLOBAL_DIRTY_MIGRATION, errp)) {
        migrate_del_blocker(&s->blocker);
        return false;
    }
    s->timer = timer_new_ms(QEMU_CLOCK_REALTIME, timer_fired, s);
    s->change = qemu_add_vm_change_state_handler(state_changed, s);
    checkpoints = s;
    replay_disks_start(s->disks);
    if (runstate_is_running()) {
        state_changed(s, true, runstate_get());
    }
    return true;
}

static void machine_done(Notifier *notifier, void *data)
{
    set_up(container_of(notifier, ReplayCheckpoints, machine_done),
           &error_fatal);
}

static void complete(UserCreatable *uc, Error **errp)
{
    ReplayCheckpoints *s = REPLAY_CHECKPOINTS(uc);

    if (checkpoints) {
        error_setg(errp, "there is an object " TYPE_REPLAY_CHECKPOINTS
                   " already");
    } else if (!s->interval_ms) {
        error_setg(errp, "interval-ms must be at least 1");
    } else if (phase_check(PHASE_MACHINE_READY)) {
        set_up(s, errp);
    } else {
        s->machine_done.notify = machine_done;
        qemu_add_machine_init_done_notifier(&s->machine_done);
    }
}

static void finalize(Object *obj)
{
    ReplayCheckpoints *s = REPLAY_CHECKPOINTS(obj);

    if (s->machine_done.notify) {
        qemu_remove_machine_init_done_notifier(&s->machine_done);
    }
    if (s == checkpoints) {
        checkpoints = NULL;
        qemu_del_vm_change_state_handler(s->change);
        timer_free(s->timer);
        memory_global_dirty_log_stop(GLOBAL_DIRTY_MIGRATION);
        migrate_del_blocker(&s->blocker);
        replay_disks_stop();
        written_pages_stop();
    }
    for (guint i = 0; i < s->list->len; i++) {
        checkpoint_free(nth(s, i));
    }
    page_versions_free(s->ram);
    page_versions_free(s->disks);
    checkpoints_file_unmap(&s->file);
    g_ptr_array_free(s->list, true);
    g_free(s->changed);
}

static void get_interval(Object *obj, Visitor *v, const char *name,
                         void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &REPLAY_CHECKPOINTS(obj)->interval_ms, errp);
}

static void set_interval(Object *obj, Visitor *v, const char *name,
                         void *opaque, Error **errp)
{
    visit_type_uint32(v, name, &REPLAY_CHECKPOINTS(obj)->interval_ms, errp);
}

static void get_memory(Object *obj, Visitor *v, const char *name,
                       void *opaque, Error **errp)
{
    visit_type_size(v, name, &REPLAY_CHECKPOINTS(obj)->memory, errp);
}

static void set_memory(Object *obj, Visitor *v, const char *name,
                       void *opaque, Error **errp)
{
    visit_type_size(v, name, &REPLAY_CHECKPOINTS(obj)->memory, errp);
}

static bool get_skip(Object *obj, Error **errp)
{
    return REPLAY_CHECKPOINTS(obj)->skip;
}

static void set_skip(Object *obj, bool skip, Error **errp)
{
    ReplayCheckpoints *s = REPLAY_CHECKPOINTS(obj);

    s->skip = skip;
    if (s == checkpoints) {
        written_pages_stop();
    }
}

static void init(Object *obj)
{
    ReplayCheckpoints *s = REPLAY_CHECKPOINTS(obj);

    s->interval_ms = DEFAULT_INTERVAL_MS;
    s->memory = DEFAULT_MEMORY;
    s->skip = true;
    s->list = g_ptr_array_new();
    s->ram = page_versions_new(TARGET_PAGE_SIZE);
    s->disks = page_versions_new(REPLAY_DISK_PAGE);
}

static void class_init(ObjectClass *class, void *data)
{
    USER_CREATABLE_CLASS(class)->complete = complete;
    object_class_property_add(class, "interval-ms", "uint32",
                              get_interval, set_interval, NULL, NULL);
    object_class_property_add(class, "memory", "size",
                              get_memory, set_memory, NULL, NULL);
    object_class_property_add_bool(class, "skip", get_skip, set_skip);
}

static const TypeInfo replay_checkpoints_info = {
    .name = TYPE_REPLAY_CHECKPOINTS,
    .parent = TYPE_OBJECT,
    .instance_size = sizeof(ReplayCheckpoints),
    .instance_init = init,
    .instance_finalize = finalize,
    .class_init = class_init,
    .interfaces = (InterfaceInfo[]) {
        { TYPE_USER_CREATABLE },
        { }
    },
};

static void register_types(void)
{
    type_register_static(&replay_checkpoints_info);
}

type_init(register_types)
