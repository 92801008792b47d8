/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses and writes blocks: see output.h
 */

#include <errno.h>

#include "drain/output.h"
#include "util/clock.h"

/*
 * Bytes that may wait.  Blocks have some 100 KB; those that cannot be
 * compressed have up to 11 MiB, and one of them is written before the next one
 * begins.
 */
#define MAX_WAITING (4u << 20)

/* A piece of sideband; if it was taken from a @budget, @data is packed: the
 * payload of info.size bytes */
struct sideband_piece {
    struct btrail_sideband_info info;
    void *data;
    struct btrail_budget *budget;
};

/* A function for the thread to call, while the caller waits */
struct output_call {
    output_fn *fn;
    void *opaque;
    unsigned blocks;            /* that must be written before */
    bool done;
};

struct output {
    struct btrail_block_sink sink;
    struct btrail_store *store;
    struct btrail_store *names;
    GThread *thread;

    GMutex lock;                /* of all up to the next blank line */
    GCond changed;
    GQueue full;
    GQueue held;                /* that wait until slabs are returned */
    bool in_slab;
    GQueue sideband;            /* of struct sideband_piece */
    GQueue calls;               /* of struct output_call */
    GQueue unused;
    unsigned blocks_left;       /* that may still be allocated */
    size_t waiting;             /* bytes of full blocks and sideband, with
                                   those that are being written */
    bool closing;

    int error;                  /* atomic */
    uint64_t bytes;             /* atomic */
    uint64_t cpu_ns;            /* atomic */
    uint64_t records;           /* atomic */
    uint64_t record_bytes;      /* atomic: of their chunks */
    uint64_t lost;              /* atomic */
};

/* With the lock */
static void queue_block(struct output *o, struct btrail_block *block)
{
    g_queue_push_tail(&o->full, block);
    o->waiting += btrail_block_size(block);
    g_cond_broadcast(&o->changed);
}

static void queue_held(struct output *o)
{
    struct btrail_block *block;

    while ((block = g_queue_pop_head(&o->held))) {
        queue_block(o, block);
    }
}

void output_slab(struct output *o)
{
    g_mutex_lock(&o->lock);
    queue_held(o);
    o->in_slab = true;
    g_mutex_unlock(&o->lock);
}

void output_returned(struct output *o)
{
    g_mutex_lock(&o->lock);
    queue_held(o);
    o->in_slab = false;
    g_mutex_unlock(&o->lock);
}

static struct btrail_block *output_get(struct btrail_block_sink *sink)
{
    struct output *o = (struct output *)sink;
    struct btrail_block *block;

    g_mutex_lock(&o->lock);
    while (o->waiting > MAX_WAITING ||
           (g_queue_is_empty(&o->unused) && !o->blocks_left)) {
        if (o->waiting) {
            g_cond_wait(&o->changed, &o->lock);
        } else {
            /* One slab has ended more blocks than there may be. */
            queue_held(o);
        }
    }
    block = g_queue_pop_head(&o->unused);
    if (!block) {
        o->blocks_left--;
        block = btrail_block_new();
    }
    g_mutex_unlock(&o->lock);
    return block;
}

bool output_full(struct output *o)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&o->lock);

    /* A slab can end a block and begin another. */
    return o->waiting > MAX_WAITING / 2 ||
           o->unused.length + o->blocks_left < 2;
}

static int output_put(struct btrail_block_sink *sink,
                      struct btrail_block *block)
{
    struct output *o = (struct output *)sink;

    g_mutex_lock(&o->lock);
    if (o->in_slab) {
        g_queue_push_tail(&o->held, block);
    } else {
        queue_block(o, block);
    }
    g_mutex_unlock(&o->lock);
    return output_error(o) ? -BTRAIL_ERR_IO : 0;
}

void output_sideband(struct output *o,
                     const struct btrail_sideband_info *info,
                     void *data)
{
    struct sideband_piece *piece = g_new(struct sideband_piece, 1);

    *piece = (struct sideband_piece) { *info, data, NULL };
    g_mutex_lock(&o->lock);
    while (o->waiting > MAX_WAITING) {
        g_cond_wait(&o->changed, &o->lock);
    }
    g_queue_push_tail(&o->sideband, piece);
    o->waiting += info->size;
    g_cond_broadcast(&o->changed);
    g_mutex_unlock(&o->lock);
}

void output_code(struct output *o, struct btrail_code_builder *builder)
{
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    uint8_t *data;
    size_t size;

    if (btrail_code_builder_size(builder)) {
        data = btrail_code_builder_take(builder, &size);
        info.size = size;
        output_sideband(o, &info, data);
    }
}

void output_packed(struct output *o, void *payload, size_t size,
                   struct btrail_budget *budget)
{
    struct sideband_piece *piece = g_new0(struct sideband_piece, 1);

    piece->info.size = (uint32_t)size;
    piece->data = payload;
    piece->budget = btrail_budget_ref(budget);
    g_mutex_lock(&o->lock);
    g_queue_push_tail(&o->sideband, piece);
    g_cond_broadcast(&o->changed);
    g_mutex_unlock(&o->lock);
}

static void add_to(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void write_block(struct output *o, struct btrail_packer *packer,
                        const struct btrail_block *block,
                        struct btrail_buf *payload)
{
    const struct btrail_block_header *h = &block->header;

    btrail_packer_pack(packer, block, payload);
    if (btrail_store_data(o->store, payload->data, payload->len, h)) {
        __atomic_store_n(&o->error, errno, __ATOMIC_RELEASE);
    } else {
        add_to(&o->records, h->records);
        add_to(&o->record_bytes, BTRAIL_CHUNK_HEADER_SIZE + payload->len);
        add_to(&o->lost, h->end_index - h->first_index - h->records);
    }
    __atomic_store_n(&o->bytes, btrail_store_size(o->store),
                     __ATOMIC_RELAXED);
}

static void write_piece(struct output *o,
                        const struct sideband_piece *piece,
                        struct btrail_buf *payload)
{
    const void *data = piece->data;
    size_t size = piece->info.size;

    if (!piece->budget) {
        btrail_sideband_pack(&piece->info, piece->data, payload);
        data = payload->data;
        size = payload->len;
    }
    if (btrail_store_sideband(o->names ?: o->store, data, size)) {
        __atomic_store_n(&o->error, errno, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&o->bytes, btrail_store_size(o->store),
                     __ATOMIC_RELAXED);
}

static void update_cpu_ns(struct output *o)
{
    __atomic_store_n(&o->cpu_ns, clock_cpu_ns(), __ATOMIC_RELAXED);
}

void output_call(struct output *o, output_fn *fn,
                 void *opaque)
{
    struct output_call call = { fn, opaque, 0, false };

    g_mutex_lock(&o->lock);
    call.blocks = o->full.length;
    g_queue_push_tail(&o->calls, &call);
    g_cond_broadcast(&o->changed);
    while (!call.done) {
        g_cond_wait(&o->changed, &o->lock);
    }
    g_mutex_unlock(&o->lock);
}

/* Returns when it must be called again, or 0. */
static gint64 sync_store(struct output *o)
{
    gint64 next = 0;

    if (!output_error(o) && btrail_store_sync(o->store, &next)) {
        __atomic_store_n(&o->error, errno, __ATOMIC_RELEASE);
    }
    return next;
}

/* A block has been taken from the queue. */
static void count_for_calls(struct output *o)
{
    for (GList *i = o->calls.head; i; i = i->next) {
        struct output_call *call = i->data;

        call->blocks -= call->blocks > 0;
    }
}

/* Must a function be called now?  With the lock */
static bool has_call(struct output *o)
{
    const struct output_call *call = g_queue_peek_head(&o->calls);

    return call && !call->blocks && g_queue_is_empty(&o->sideband);
}

static void handle_call(struct output *o)
{
    struct output_call *call = g_queue_pop_head(&o->calls);
    struct btrail_store *names;

    g_mutex_unlock(&o->lock);
    names = call->fn(call->opaque);
    g_mutex_lock(&o->lock);
    if (names) {
        o->names = names;
    }
    call->done = true;
    g_cond_broadcast(&o->changed);
}

static gpointer output_thread(gpointer opaque)
{
    struct output *o = opaque;
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_buf payload = { 0 };
    gint64 sync_at = 0;

    g_mutex_lock(&o->lock);
    for (;;) {
        struct btrail_block *block = NULL;
        struct sideband_piece *piece;
        size_t size;

        if (has_call(o)) {
            handle_call(o);
            continue;
        }
        piece = g_queue_pop_head(&o->sideband);
        if (!piece) {
            block = g_queue_pop_head(&o->full);
            count_for_calls(o);
        }
        if (!block && !piece) {
            if (o->closing) {
                break;
            }
            if (!sync_at) {
                g_cond_wait(&o->changed, &o->lock);
            } else if (!g_cond_wait_until(&o->changed, &o->lock, sync_at)) {
                g_mutex_unlock(&o->lock);
                sync_at = sync_store(o);
                g_mutex_lock(&o->lock);
            }
            continue;
        }
        g_mutex_unlock(&o->lock);

        if (!output_error(o)) {
            if (piece) {
                write_piece(o, piece, &payload);
            } else {
                write_block(o, packer, block, &payload);
            }
            sync_at = sync_store(o);
        }
        update_cpu_ns(o);
        if (piece) {
            size = piece->budget ? 0 : piece->info.size;
            if (piece->budget) {
                btrail_budget_drop(piece->budget, piece->info.size);
                btrail_budget_unref(piece->budget);
            }
            g_free(piece->data);
            g_free(piece);
        } else {
            size = btrail_block_size(block);
            btrail_block_trim(block);
        }

        g_mutex_lock(&o->lock);
        o->waiting -= size;
        if (block) {
            g_queue_push_head(&o->unused, block);
        }
        g_cond_broadcast(&o->changed);
    }
    g_mutex_unlock(&o->lock);

    btrail_buf_free(&payload);
    btrail_packer_free(packer);
    return NULL;
}

struct output *output_new(struct btrail_store *store,
                          struct btrail_store *names,
                          unsigned blocks)
{
    struct output *o = g_new0(struct output, 1);

    o->sink.get = output_get;
    o->sink.put = output_put;
    o->store = store;
    o->names = names;
    o->blocks_left = blocks;
    o->bytes = btrail_store_size(store);
    g_mutex_init(&o->lock);
    g_cond_init(&o->changed);
    g_queue_init(&o->full);
    g_queue_init(&o->held);
    g_queue_init(&o->sideband);
    g_queue_init(&o->calls);
    g_queue_init(&o->unused);
    o->thread = g_thread_new("output", output_thread, o);
    return o;
}

struct btrail_block_sink *output_sink(struct output *o)
{
    return &o->sink;
}

uint64_t output_bytes(const struct output *o)
{
    return __atomic_load_n(&o->bytes, __ATOMIC_RELAXED);
}

uint64_t output_record_bytes(const struct output *o)
{
    return __atomic_load_n(&o->record_bytes, __ATOMIC_RELAXED);
}

uint64_t output_cpu_ns(const struct output *o)
{
    return __atomic_load_n(&o->cpu_ns, __ATOMIC_RELAXED);
}

uint64_t output_records(const struct output *o)
{
    return __atomic_load_n(&o->records, __ATOMIC_RELAXED);
}

uint64_t output_lost(const struct output *o)
{
    return __atomic_load_n(&o->lost, __ATOMIC_RELAXED);
}

int output_error(const struct output *o)
{
    return __atomic_load_n(&o->error, __ATOMIC_ACQUIRE);
}

void output_finish(struct output *o)
{
    output_returned(o);
    g_mutex_lock(&o->lock);
    o->closing = true;
    g_cond_broadcast(&o->changed);
    g_mutex_unlock(&o->lock);
    g_thread_join(o->thread);
}

void output_free(struct output *o)
{
    struct btrail_block *block;

    while ((block = g_queue_pop_head(&o->unused))) {
        btrail_block_free(block);
    }
    g_mutex_clear(&o->lock);
    g_cond_clear(&o->changed);
    g_free(o);
}
