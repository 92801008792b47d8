/*
 * Checkpoints of a replay, in a file
 *
 * All numbers are little endian.  A text is its length, in 32 bits, and its
 * bytes.
 *
 *   header       struct FileHeader
 *   machine      texts: version of QEMU, name of the machine; size of the log
 *   blocks       their number (32 bits); of each its name, a text, and its
 *                largest size (64)
 *   disks        their number (32); of each its name, a text
 *   checkpoints  their number (32); of each: see put_checkpoint()
 *   versions     those of RAM, then those of disks: their number (64); of each
 *                the index of its block or disk (32), its page there (64), the
 *                index of its checkpoint (32), and 1 more than the index of
 *                its content (32), or 0 if it is zero
 *   zeroes       up to the next page
 *   contents     pages, each with another content
 *
 * RAM has no addresses here, since those can differ between two QEMUs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qemu/rcu.h"
#include "qemu-version.h"
#include "qapi/error.h"
#include "exec/ram_addr.h"
#include "exec/target_page.h"
#include "hw/boards.h"
#include "system/replay.h"
#include "checkpoints-file.h"
#include "replay-disks.h"

#define MAGIC           "QEMUCKPT"
#define FILE_VERSION    2
/* How many pages are written at once */
#define MANY_PAGES      256
/* Longer than any name that we write */
#define MAX_TEXT        1024

#define CONTENT_SIZE    TARGET_PAGE_SIZE
QEMU_BUILD_BUG_ON(CONTENT_SIZE != REPLAY_DISK_PAGE);

typedef struct QEMU_PACKED FileHeader {
    char magic[8];
    uint32_t version;
    uint32_t page_size;
    uint64_t contents_at;
    uint64_t contents;
} FileHeader;

/* Where a block or a disk has its pages */
typedef struct Owner {
    char *name;
    uint64_t first;
    uint64_t pages;
} Owner;

static void free_owners(GArray *owners)
{
    for (guint i = 0; i < owners->len; i++) {
        g_free(g_array_index(owners, Owner, i).name);
    }
    g_array_free(owners, true);
}

void checkpoint_free(Checkpoint *c)
{
    g_array_free(c->blocks, true);
    written_pages_free(c->written);
    g_free(c->state);
    g_free(c);
}

/* Writing ----------------------------------------------------------------- */

typedef struct Writer {
    const CheckpointSet *set;
    GByteArray *bytes;
    GArray *blocks;             /* Owner, as checkpoints have them */
    GPtrArray *disks;           /* names */
    GPtrArray *contents;
    GHashTable *numbers;        /* content -> 1 more than its index */
    uint64_t versions;
    bool nameless;
} Writer;

static void put32(Writer *w, uint32_t value)
{
    value = cpu_to_le32(value);
    g_byte_array_append(w->bytes, (void *)&value, sizeof(value));
}

static void put64(Writer *w, uint64_t value)
{
    value = cpu_to_le64(value);
    g_byte_array_append(w->bytes, (void *)&value, sizeof(value));
}

static void put_text(Writer *w, const char *text)
{
    put32(w, strlen(text));
    g_byte_array_append(w->bytes, (const void *)text, strlen(text));
}

static uint64_t log_size(void)
{
    struct stat st;

    return fstat(fileno(replay_file), &st) ? 0 : st.st_size;
}

static const char *machine_name(void)
{
    return MACHINE_GET_CLASS(current_machine)->name;
}

static void put_blocks(Writer *w, const GArray *blocks)
{
    put32(w, blocks->len);
    for (guint i = 0; i < blocks->len; i++) {
        const BlockState *b = &g_array_index(blocks, BlockState, i);
        RAMBlock *block = qemu_ram_block_by_name(b->id);
        Owner owner = {
            .name = g_strdup(b->id),
            .first = block->offset >> TARGET_PAGE_BITS,
            .pages = block->max_length >> TARGET_PAGE_BITS,
        };

        g_array_append_val(w->blocks, owner);
        put_text(w, b->id);
        put64(w, block->max_length);
    }
}

/* 1 more than their number, and their numbers in order; or 0: any page */
static void put_written(Writer *w, const WrittenPages *written)
{
    size_t n;
    const uint64_t *pages = written_pages_list(written, &n);

    put32(w, pages ? n + 1 : 0);
    for (size_t i = 0; i < n; i++) {
        put64(w, pages[i]);
    }
}

static void put_checkpoint(Writer *w, const Checkpoint *c)
{
    const ReplayState *r = &c->replay;

    put64(w, c->icount);
    put64(w, c->ran_ns);
    put_written(w, c->written);
    for (int i = 0; i < REPLAY_CLOCK_COUNT; i++) {
        put64(w, r->cached_clock[i]);
    }
    put64(w, r->current_icount);
    put32(w, r->instruction_count);
    put32(w, r->current_event);
    put32(w, r->data_kind);
    put32(w, r->has_unread_data);
    put64(w, r->file_offset);
    put64(w, r->block_request_id);
    put64(w, r->read_event_id);
    put32(w, r->cpu_index);
    for (guint i = 0; i < w->blocks->len; i++) {
        put64(w, g_array_index(c->blocks, BlockState, i).length);
    }
    put32(w, c->state_size);
    g_byte_array_append(w->bytes, c->state, c->state_size);
}

static uint32_t checkpoint_index(Writer *w, int64_t icount)
{
    GPtrArray *list = w->set->list;
    guint low = 0;
    guint high = list->len;

    while (high - low > 1) {
        guint middle = low + (high - low) / 2;

        if (((Checkpoint *)g_ptr_array_index(list, middle))->icount > icount) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

static void put_version(Writer *w, uint32_t owner, uint64_t page,
                        uint64_t moment, const void *bytes)
{
    gpointer number = bytes ? g_hash_table_lookup(w->numbers, bytes) : NULL;

    if (bytes && !number) {
        g_ptr_array_add(w->contents, (gpointer)bytes);
        number = GUINT_TO_POINTER(w->contents->len);
        g_hash_table_insert(w->numbers, (gpointer)bytes, number);
    }
    put32(w, owner);
    put64(w, page);
    put32(w, checkpoint_index(w, moment));
    put32(w, GPOINTER_TO_UINT(number));
    w->versions++;
}

static void put_ram(uint64_t page, uint64_t moment, const void *bytes,
                    void *opaque)
{
    Writer *w = opaque;

    for (guint i = 0; i < w->blocks->len; i++) {
        const Owner *owner = &g_array_index(w->blocks, Owner, i);

        if (page >= owner->first && page - owner->first < owner->pages) {
            put_version(w, i, page - owner->first, moment, bytes);
            return;
        }
    }
}

static uint32_t disk_index(Writer *w, const char *name)
{
    guint i;

    if (!g_ptr_array_find_with_equal_func(w->disks, name, g_str_equal, &i)) {
        i = w->disks->len;
        g_ptr_array_add(w->disks, g_strdup(name));
        w->nameless |= !*name;
    }
    return i;
}

static void add_disk(uint64_t page, uint64_t moment, const void *bytes,
                     void *opaque)
{
    disk_index(opaque, replay_disks_name(page));
}

static void put_disk(uint64_t page, uint64_t moment, const void *bytes,
                     void *opaque)
{
    put_version(opaque, disk_index(opaque, replay_disks_name(page)),
                replay_disks_page(page), moment, bytes);
}

static void put_versions(Writer *w, PageVersions *v,
                         void (*put)(uint64_t page, uint64_t moment,
                                     const void *bytes, void *opaque))
{
    guint at = w->bytes->len;

    w->versions = 0;
    put64(w, 0);
    page_versions_for_all(v, put, w);
    stq_le_p(w->bytes->data + at, w->versions);
}

static void put_all(Writer *w)
{
    GPtrArray *list = w->set->list;
    FileHeader header = {
        .magic = MAGIC,
        .version = cpu_to_le32(FILE_VERSION),
        .page_size = cpu_to_le32(CONTENT_SIZE),
    };

    g_byte_array_append(w->bytes, (void *)&header, sizeof(header));
    put_text(w, QEMU_FULL_VERSION);
    put_text(w, machine_name());
    put64(w, log_size());
    put_blocks(w, ((Checkpoint *)g_ptr_array_index(list, 0))->blocks);
    page_versions_for_all(w->set->disks, add_disk, w);
    put32(w, w->disks->len);
    for (guint i = 0; i < w->disks->len; i++) {
        put_text(w, g_ptr_array_index(w->disks, i));
    }
    put32(w, list->len);
    for (guint i = 0; i < list->len; i++) {
        put_checkpoint(w, g_ptr_array_index(list, i));
    }
    put_versions(w, w->set->ram, put_ram);
    put_versions(w, w->set->disks, put_disk);
    while (w->bytes->len % CONTENT_SIZE) {
        g_byte_array_append(w->bytes, (const uint8_t *)"", 1);
    }
    header.contents_at = cpu_to_le64(w->bytes->len);
    header.contents = cpu_to_le64(w->contents->len);
    memcpy(w->bytes->data, &header, sizeof(header));
}

static bool write_all(Writer *w, int fd)
{
    g_autofree uint8_t *some = g_malloc(MANY_PAGES * CONTENT_SIZE);

    if (qemu_write_full(fd, w->bytes->data, w->bytes->len) != w->bytes->len) {
        return false;
    }
    for (guint at = 0; at < w->contents->len; at += MANY_PAGES) {
        guint n = MIN(MANY_PAGES, w->contents->len - at);

        for (guint i = 0; i < n; i++) {
            memcpy(some + i * CONTENT_SIZE,
                   g_ptr_array_index(w->contents, at + i), CONTENT_SIZE);
        }
        if (qemu_write_full(fd, some, n * CONTENT_SIZE) != n * CONTENT_SIZE) {
            return false;
        }
    }
    return true;
}

bool checkpoints_file_write(int fd, const CheckpointSet *set, Error **errp)
{
    Writer w = {
        .set = set,
        .bytes = g_byte_array_new(),
        .blocks = g_array_new(false, false, sizeof(Owner)),
        .disks = g_ptr_array_new_with_free_func(g_free),
        .contents = g_ptr_array_new(),
        .numbers = g_hash_table_new(NULL, NULL),
    };
    bool ok;

    put_all(&w);
    ok = !w.nameless;
    if (!ok) {
        error_setg(errp, "a disk that the guest has written to has no name");
    } else if (!write_all(&w, fd)) {
        error_setg_errno(errp, errno, "cannot write the checkpoints");
        ok = false;
    }
    g_byte_array_free(w.bytes, true);
    free_owners(w.blocks);
    g_ptr_array_free(w.disks, true);
    g_ptr_array_free(w.contents, true);
    g_hash_table_destroy(w.numbers);
    return ok;
}

/* Reading ----------------------------------------------------------------- */

typedef struct Reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
    const uint8_t *contents;
    uint64_t n_contents;
    GArray *blocks;             /* Owner */
    GArray *disks;              /* Owner */
    CheckpointSet *set;
    Error **errp;
} Reader;

static const uint8_t *get_bytes(Reader *r, uint64_t size)
{
    const uint8_t *at = r->at;

    if (r->bad || size > r->end - r->at) {
        r->bad = true;
        return NULL;
    }
    r->at += size;
    return at;
}

static uint32_t get32(Reader *r)
{
    const uint8_t *at = get_bytes(r, 4);

    return at ? ldl_le_p(at) : 0;
}

static uint64_t get64(Reader *r)
{
    const uint8_t *at = get_bytes(r, 8);

    return at ? ldq_le_p(at) : 0;
}

/* To be freed; NULL if there is none that can be one */
static char *get_text(Reader *r)
{
    uint32_t size = get32(r);
    const uint8_t *at = get_bytes(r, size);

    if (!at || size > MAX_TEXT || memchr(at, 0, size)) {
        r->bad = true;
        return NULL;
    }
    return g_strndup((const char *)at, size);
}

static bool G_GNUC_PRINTF(2, 3) refuse(Error **errp, const char *format, ...)
{
    g_autofree char *what = NULL;
    va_list args;

    va_start(args, format);
    what = g_strdup_vprintf(format, args);
    va_end(args);
    error_setg(errp, "the checkpoints are not used: %s", what);
    return false;
}

static bool damaged(Reader *r)
{
    return refuse(r->errp, "their file is damaged");
}

static bool get_machine(Reader *r)
{
    g_autofree char *version = get_text(r);
    g_autofree char *machine = get_text(r);
    uint64_t size = get64(r);

    if (r->bad) {
        return damaged(r);
    }
    if (strcmp(version, QEMU_FULL_VERSION) ||
        strcmp(machine, machine_name()) || size != log_size()) {
        return refuse(r->errp, "they are of another QEMU, machine or log");
    }
    return true;
}

static bool get_block(Reader *r)
{
    char *name = get_text(r);
    uint64_t size = get64(r);
    RAMBlock *block = r->bad ? NULL : qemu_ram_block_by_name(name);
    Owner owner = { .name = name };

    if (block) {
        owner.first = block->offset >> TARGET_PAGE_BITS;
        owner.pages = block->max_length >> TARGET_PAGE_BITS;
    }
    g_array_append_val(r->blocks, owner);
    if (r->bad) {
        return damaged(r);
    }
    if (!block || !qemu_ram_is_migratable(block) ||
        block->max_length != size) {
        return refuse(r->errp, "this machine has another RAM '%s'", name);
    }
    return true;
}

static bool get_blocks(Reader *r)
{
    uint32_t n = get32(r);

    for (uint32_t i = 0; i < n; i++) {
        if (!get_block(r)) {
            return false;
        }
    }
    return !r->bad || damaged(r);
}

static bool get_disks(Reader *r)
{
    uint32_t n = get32(r);

    for (uint32_t i = 0; i < n; i++) {
        Owner owner = { .name = get_text(r) };
        bool found = !r->bad && replay_disks_find(owner.name, &owner.first,
                                                  &owner.pages);

        g_array_append_val(r->disks, owner);
        if (r->bad) {
            return damaged(r);
        }
        if (!found) {
            return refuse(r->errp, "there is no disk '%s'", owner.name);
        }
    }
    return !r->bad || damaged(r);
}

static void get_replay_state(Reader *r, ReplayState *s)
{
    for (int i = 0; i < REPLAY_CLOCK_COUNT; i++) {
        s->cached_clock[i] = get64(r);
    }
    s->current_icount = get64(r);
    s->instruction_count = get32(r);
    s->current_event = get32(r);
    s->data_kind = get32(r);
    s->has_unread_data = get32(r);
    s->file_offset = get64(r);
    s->block_request_id = get64(r);
    s->read_event_id = get64(r);
    s->cpu_index = get32(r);
    r->bad |= s->file_offset > log_size() || s->data_kind > EVENT_COUNT ||
              s->instruction_count < 0 ||
              s->cpu_index >= current_machine->smp.max_cpus;
}

static void get_block_states(Reader *r, Checkpoint *c)
{
    for (guint i = 0; i < r->blocks->len; i++) {
        const Owner *owner = &g_array_index(r->blocks, Owner, i);
        BlockState b = { .length = get64(r) };

        b.offset = owner->first << TARGET_PAGE_BITS;
        pstrcpy(b.id, sizeof(b.id), owner->name);
        r->bad |= b.length > owner->pages << TARGET_PAGE_BITS;
        g_array_append_val(c->blocks, b);
    }
}

static WrittenPages *get_written(Reader *r)
{
    uint32_t n = get32(r);
    const uint8_t *at = n ? get_bytes(r, (n - 1) * sizeof(uint64_t)) : NULL;
    g_autofree uint64_t *pages = NULL;
    WrittenPages *written;

    if (!at) {
        return NULL;
    }
    pages = g_new(uint64_t, n);
    for (uint32_t i = 0; i < n - 1; i++) {
        pages[i] = ldq_le_p(at + i * sizeof(uint64_t));
    }
    written = written_pages_new(pages, n - 1);
    r->bad |= !written;
    return written;
}

static bool get_checkpoint(Reader *r)
{
    GPtrArray *list = r->set->list;
    Checkpoint *before = list->len ?
                         g_ptr_array_index(list, list->len - 1) : NULL;
    Checkpoint *c = g_new0(Checkpoint, 1);
    const uint8_t *state;

    c->loaded = true;
    c->icount = get64(r);
    c->ran_ns = get64(r);
    c->written = get_written(r);
    c->blocks = g_array_new(false, true, sizeof(BlockState));
    get_replay_state(r, &c->replay);
    get_block_states(r, c);
    c->state_size = get32(r);
    state = get_bytes(r, c->state_size);
    r->bad |= c->icount < 0 || c->ran_ns < 0 || c->ran_ns > INT64_MAX / 4 ||
              (before && before->icount >= c->icount);
    if (r->bad) {
        checkpoint_free(c);
        return damaged(r);
    }
    c->state = g_memdup2(state, c->state_size);
    g_ptr_array_add(list, c);
    page_versions_begin(r->set->ram, c->icount);
    page_versions_begin(r->set->disks, c->icount);
    return true;
}

static bool get_checkpoints(Reader *r)
{
    uint32_t n = get32(r);

    for (uint32_t i = 0; i < n; i++) {
        if (!get_checkpoint(r)) {
            return false;
        }
    }
    return (!r->bad && n) || damaged(r);
}

static bool get_version(Reader *r, PageVersions *v, const GArray *owners)
{
    GPtrArray *list = r->set->list;
    uint32_t owner = get32(r);
    uint64_t page = get64(r);
    uint32_t checkpoint = get32(r);
    uint32_t content = get32(r);
    const Owner *o;

    if (r->bad || owner >= owners->len || checkpoint >= list->len ||
        content > r->n_contents) {
        return damaged(r);
    }
    o = &g_array_index(owners, Owner, owner);
    if (page >= o->pages ||
        !page_versions_add(v, ((Checkpoint *)g_ptr_array_index(
                                  list, checkpoint))->icount, o->first + page,
                           content ? r->contents +
                           (content - 1ull) * CONTENT_SIZE : NULL)) {
        return damaged(r);
    }
    return true;
}

static bool get_versions(Reader *r, PageVersions *v, const GArray *owners)
{
    uint64_t n = get64(r);

    for (uint64_t i = 0; i < n; i++) {
        if (!get_version(r, v, owners)) {
            return false;
        }
    }
    return !r->bad || damaged(r);
}

static bool get_header(Reader *r, uint64_t size)
{
    const uint8_t *start = r->at;
    const FileHeader *h = (const void *)get_bytes(r, sizeof(*h));
    uint64_t at;

    if (!h || memcmp(h->magic, MAGIC, sizeof(h->magic))) {
        return refuse(r->errp, "their file is not one of checkpoints");
    }
    if (le32_to_cpu(h->version) != FILE_VERSION ||
        le32_to_cpu(h->page_size) != CONTENT_SIZE) {
        return refuse(r->errp, "their file is of another version");
    }
    at = le64_to_cpu(h->contents_at);
    r->n_contents = le64_to_cpu(h->contents);
    if (at % CONTENT_SIZE || at < sizeof(*h) || at > size ||
        (size - at) % CONTENT_SIZE ||
        (size - at) / CONTENT_SIZE != r->n_contents ||
        r->n_contents > UINT32_MAX) {
        return damaged(r);
    }
    r->end = start + at;
    r->contents = start + at;
    return true;
}

/*
 * What the guest begins with is what it has begun with: nothing was executed
 * yet, so that all that is not zero is there.
 */
static bool check_start(Reader *r)
{
    const Checkpoint *first = g_ptr_array_index(r->set->list, 0);

    if (first->icount != replay_get_current_icount()) {
        return refuse(r->errp, "they do not begin where the guest is");
    }
    RCU_READ_LOCK_GUARD();
    for (guint i = 0; i < r->blocks->len; i++) {
        const Owner *owner = &g_array_index(r->blocks, Owner, i);
        RAMBlock *block = qemu_ram_block_by_name(owner->name);
        uint64_t pages = block->used_length >> TARGET_PAGE_BITS;

        for (uint64_t page = 0; page < pages; page++) {
            const void *then = page_versions_get(r->set->ram, first->icount,
                                                 owner->first + page);

            if (then && memcmp(then, ramblock_ptr(block, page <<
                                                  TARGET_PAGE_BITS),
                               TARGET_PAGE_SIZE)) {
                return refuse(r->errp, "the memory of the guest begins with "
                              "something else");
            }
        }
    }
    return true;
}

static bool get_all(Reader *r, uint64_t size)
{
    return get_header(r, size) && get_machine(r) && get_blocks(r) &&
           get_disks(r) && get_checkpoints(r) &&
           get_versions(r, r->set->ram, r->blocks) &&
           get_versions(r, r->set->disks, r->disks) && check_start(r);
}

static bool map(int fd, uint64_t max_size, CheckpointsFile *file,
                Error **errp)
{
    struct stat st;

    if (fstat(fd, &st)) {
        error_setg_errno(errp, errno, "cannot read the checkpoints");
        return false;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < sizeof(FileHeader)) {
        return refuse(errp, "their file is not one of checkpoints");
    }
    if (st.st_size > max_size) {
        return refuse(errp, "they are larger than the memory that is "
                      "permitted");
    }
    file->size = st.st_size;
    file->bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file->bytes == MAP_FAILED) {
        error_setg_errno(errp, errno, "cannot map the checkpoints");
        file->bytes = NULL;
        return false;
    }
    return true;
}

void checkpoints_file_unmap(CheckpointsFile *file)
{
    if (file->bytes) {
        munmap(file->bytes, file->size);
    }
    *file = (CheckpointsFile) { NULL };
}

bool checkpoints_file_read(int fd, uint64_t max_size, CheckpointSet *set,
                           CheckpointsFile *file, Error **errp)
{
    Reader r = { .set = set, .errp = errp };
    bool ok;

    if (!map(fd, max_size, file, errp)) {
        return false;
    }
    r.at = file->bytes;
    r.end = r.at + file->size;
    r.blocks = g_array_new(false, false, sizeof(Owner));
    r.disks = g_array_new(false, false, sizeof(Owner));
    ok = get_all(&r, file->size);
    free_owners(r.blocks);
    free_owners(r.disks);
    return ok;
}
