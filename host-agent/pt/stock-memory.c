/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of a guest whose QEMU has nothing of ours: see stock-memory.h
 */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest-linux/page-walk.h"
#include "pt/frozen-code.h"
#include "pt/process-memory.h"
#include "pt/stock-memory.h"
#include "util/json.h"
#include "util/quote.h"

#define PAGE        ((uint64_t)GUEST_PAGE_SIZE)
#define COMPARED    64              /* bytes at a place */
#define VCPUS       4096
/* What firmware can take of RAM for itself (SMRAM, TSEG), and holes */
#define TAKEN       (UINT64_C(64) << 20)

/* What is needed to find it */
struct finding {
    struct qmp *qmp;
    int timeout_ms;
    int cancel_fd;
    int given;                  /* its memory, or -1 */
    struct process_memory *process;
    struct stock_memory *memory;
};

/* Where a range is in QEMU's process; ranges that go on there are one. */
struct stock_piece {
    uint64_t address;
    uint64_t size;
    uint64_t host;
};

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

static JsonNode *execute(struct finding *f, const char *command,
                         JsonObject *arguments, GError **error)
{
    return qmp_execute(f->qmp, command, arguments, -1, f->timeout_ms,
                       f->cancel_fd, error);
}

/* An object that a command returns; NULL and @error if it is none */
static JsonNode *ask(struct finding *f, const char *command, GError **error)
{
    JsonNode *node = execute(f, command, NULL, error);

    if (node && !JSON_NODE_HOLDS_OBJECT(node)) {
        json_node_unref(node);
        agent_fail(error, AGENT_ERROR_PROTOCOL, "%s: QEMU returns no object",
                   command);
        return NULL;
    }
    return node;
}

static char *text_of(JsonNode *node, const char *command, GError **error)
{
    if (!node) {
        return NULL;
    }
    if (!JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_STRING) {
        agent_fail(error, AGENT_ERROR_PROTOCOL, "%s: QEMU returns no text",
                   command);
        return NULL;
    }
    return json_node_dup_string(node);
}

/* What the human monitor prints; @vcpu may be -1 */
static char *hmp(struct finding *f, const char *line, gint64 vcpu,
                 GError **error)
{
    JsonObject *arguments = btrail_json_new("s:command-line", line, NULL);
    g_autoptr(JsonNode) node = NULL;

    if (vcpu >= 0) {
        json_object_set_int_member(arguments, "cpu-index", vcpu);
    }
    node = execute(f, "human-monitor-command", arguments, error);
    return text_of(node, line, error);
}

static bool check_stands(struct finding *f, GError **error)
{
    static const char *const stands[] = {
        "debug", "guest-panicked", "internal-error", "io-error", "paused",
        "prelaunch", "shutdown", "watchdog",
    };
    g_autoptr(JsonNode) node = ask(f, "query-status", error);
    const char *status = node ? btrail_json_string(json_node_get_object(node),
                                                   "status") : NULL;
    g_autofree char *quoted = btrail_quote(status ? status : "unknown", "");

    if (!node) {
        return false;
    }
    for (unsigned i = 0; status && i < G_N_ELEMENTS(stands); i++) {
        if (!strcmp(status, stands[i])) {
            return true;
        }
    }
    return refuse(error, "the guest must stand still while its memory is read, "
                  "and its state is '%s'", quoted);
}

/* After a migration by postcopy, reading what has not come yet would wait. */
static bool check_migration(struct finding *f, GError **error)
{
    static const char *const over[] = { "none", "completed", "failed",
                                        "cancelled" };
    g_autoptr(JsonNode) node = ask(f, "query-migrate", error);
    const char *status = node ? btrail_json_string(json_node_get_object(node),
                                                   "status") : NULL;
    g_autofree char *quoted = NULL;

    if (!node) {
        return false;
    }
    for (unsigned i = 0; status && i < G_N_ELEMENTS(over); i++) {
        if (!strcmp(status, over[i])) {
            return true;
        }
    }
    if (!status) {
        return true;
    }
    quoted = btrail_quote(status, "");
    return refuse(error, "the guest migrates ('%s'): its memory can be read "
                  "once it has arrived", quoted);
}

/* Is this property of the machine set?  Not each QEMU has each. */
static bool is_set(struct finding *f, const char *property)
{
    g_autoptr(JsonNode) node = execute(
        f, "qom-get", btrail_json_new("s:path", "/machine", "s:property",
                                      property, NULL), NULL);
    g_autofree char *text = text_of(node, property, NULL);

    return text && *text;
}

static bool check_clear(struct finding *f, GError **error)
{
    if (is_set(f, "confidential-guest-support") ||
        is_set(f, "memory-encryption")) {
        return refuse(error, "the guest's memory is encrypted, or not for the "
                      "host to read");
    }
    return true;
}

static bool read_vcpu(struct finding *f, JsonObject *o, GError **error)
{
    struct stock_vcpu v = { 0 };
    gint64 number = btrail_json_int(o, "cpu-index", -1);
    gint64 thread = btrail_json_int(o, "thread-id", -1);
    const char *target = btrail_json_string(o, "target");
    g_autofree char *text = NULL;

    if (number < 0 || number > G_MAXINT || thread <= 0 || thread > G_MAXINT ||
        (g_strcmp0(target, "x86_64") && g_strcmp0(target, "i386"))) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL, "query-cpus-fast: QEMU "
                          "returns a vCPU that is none of an x86 guest");
    }
    v.number = (unsigned)number;
    v.thread = process_memory_thread(f->process, (pid_t)thread);
    if (!v.thread) {
        return refuse(error, "process %d is not this QEMU: it has no thread "
                      "%d, which runs vCPU %u.  If another program has made "
                      "the monitor's socket, name QEMU's process",
                      (int)f->memory->pid, (int)thread, v.number);
    }
    text = hmp(f, "info registers", number, error);
    if (!text || !hmp_parse_registers(text, &v.registers, error)) {
        return false;
    }
    v.levels = v.registers.smm ? 0 :
               page_walk_levels(v.registers.cr0, v.registers.cr4,
                                v.registers.efer);
    g_array_append_val(f->memory->vcpus, v);
    return true;
}

static bool read_vcpus(struct finding *f, GError **error)
{
    g_autoptr(JsonNode) node = execute(f, "query-cpus-fast", NULL, error);
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ?
                      json_node_get_array(node) : NULL;
    guint n = list ? json_array_get_length(list) : 0;

    if (!node) {
        return false;
    }
    if (!n || n > VCPUS) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL, "query-cpus-fast: QEMU "
                          "returns no list of vCPUs");
    }
    for (guint i = 0; i < n; i++) {
        JsonNode *item = json_array_get_element(list, i);

        if (!JSON_NODE_HOLDS_OBJECT(item)) {
            return agent_fail(error, AGENT_ERROR_PROTOCOL, "query-cpus-fast: "
                              "QEMU returns no vCPU");
        }
        if (!read_vcpu(f, json_node_get_object(item), error)) {
            return false;
        }
    }
    return true;
}

static bool host_address(struct finding *f, uint64_t address, uint64_t *host,
                         GError **error)
{
    g_autofree char *line = g_strdup_printf("gpa2hva 0x%" G_GINT64_MODIFIER
                                            "x", address);
    g_autofree char *text = hmp(f, line, -1, error);

    return text && hmp_parse_host_address(text, address, host, error);
}

static bool find_piece(struct finding *f, GArray *pieces,
                       const struct hmp_range *r, GError **error)
{
    /* What shares a page with something else is left out. */
    uint64_t start = (r->address + PAGE - 1) & -PAGE;
    uint64_t end = (r->address + r->size) & -PAGE;
    struct stock_piece *last = pieces->len ?
        &g_array_index(pieces, struct stock_piece, pieces->len - 1) : NULL;
    struct stock_piece p = { .address = start };
    uint64_t host;

    if (start < r->address || end <= start) {
        return true;
    }
    p.size = end - start;
    if (!host_address(f, start, &p.host, error) ||
        !host_address(f, end - PAGE, &host, error)) {
        return false;
    }
    if (p.host % PAGE || host - p.host != p.size - PAGE || host < p.host ||
        host > INT64_MAX - PAGE) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL, "QEMU's monitor says "
                          "that guest memory from 0x%" G_GINT64_MODIFIER
                          "x on is not in one piece", start);
    }
    if (last && last->address + last->size == start &&
        last->host + last->size == p.host) {
        last->size += p.size;
    } else {
        g_array_append_val(pieces, p);
    }
    return true;
}

static int add_descriptor(struct guest_memory_files *files, int fd)
{
    files->fds[files->head.files] = fd;
    return (int)files->head.files++;
}

/*
 * Descriptor 0 is that of QEMU's memory.  A range that others share is read in
 * its file as long as there is room for one.
 */
static bool add_piece(struct finding *f, const struct stock_piece *p,
                      GError **error)
{
    struct guest_memory_files *files = f->memory->files;
    struct btrail_memory_range *r = &files->ranges[files->head.ranges];
    uint64_t offset = 0;
    int fd;

    if (files->head.ranges == MIN(BTRAIL_MEMORY_MAX_RANGES,
                                  GUEST_RANGES_MAX)) {
        return refuse(error, "the guest's memory is in more than %u pieces",
                      files->head.ranges);
    }
    files->head.ranges++;
    *r = (struct btrail_memory_range){
        .address = p->address, .size = p->size, .offset = p->host };
    f->memory->size += p->size;
    if (files->head.files == BTRAIL_MEMORY_MAX_FILES) {
        return true;
    }
    fd = process_memory_file(f->process, p->host, p->size, &offset);
    if (fd >= 0 && offset % PAGE == 0) {
        r->file = (uint32_t)add_descriptor(files, fd);
        r->offset = offset;
    } else if (fd >= 0) {
        close(fd);
    }
    return true;
}

static bool find_ranges(struct finding *f, const char *tree, GError **error)
{
    g_autoptr(GArray) ranges = hmp_parse_ranges(tree, error);
    g_autoptr(GArray) pieces = g_array_new(FALSE, FALSE,
                                           sizeof(struct stock_piece));
    struct guest_memory_files *files = f->memory->files;
    int fd;

    for (guint i = 0; ranges && i < ranges->len; i++) {
        if (!find_piece(f, pieces, &g_array_index(ranges, struct hmp_range, i),
                        error)) {
            return false;
        }
    }
    fd = ranges ? fcntl(process_memory_fd(f->process), F_DUPFD_CLOEXEC, 0) :
         -1;
    if (fd < 0) {
        return ranges && agent_error_errno(error, "cannot read QEMU's memory");
    }
    add_descriptor(files, fd);
    for (guint i = 0; i < pieces->len; i++) {
        if (!add_piece(f, &g_array_index(pieces, struct stock_piece, i),
                       error)) {
            return false;
        }
    }
    return true;
}

/* Is all RAM there that the guest has? */
static bool check_size(struct finding *f, GError **error)
{
    g_autoptr(JsonNode) node = ask(f, "query-memory-size-summary", error);
    JsonObject *o = node ? json_node_get_object(node) : NULL;
    gint64 base = o ? btrail_json_int(o, "base-memory", -1) : -1;
    gint64 plugged = o ? btrail_json_int(o, "plugged-memory", 0) : -1;

    if (!node) {
        return false;
    }
    if (base < 0 || plugged < 0 || base > INT64_MAX - plugged) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL,
                          "query-memory-size-summary: QEMU returns no size");
    }
    if ((uint64_t)(base + plugged) > f->memory->size + TAKEN) {
        return refuse(error, "of the guest's memory QEMU's monitor says where "
                      "%" G_GINT64_MODIFIER "u of %" G_GINT64_MODIFIER
                      "d bytes are", f->memory->size, base + plugged);
    }
    return true;
}

static bool compare(struct finding *f, const struct guest_memory *memory,
                    uint64_t address, GError **error)
{
    g_autofree char *line = g_strdup_printf("xp /%uxb 0x%" G_GINT64_MODIFIER
                                            "x", COMPARED, address);
    g_autofree char *text = hmp(f, line, -1, error);
    uint8_t said[COMPARED], found[COMPARED];

    if (!text || !hmp_parse_bytes(text, address, said, COMPARED, error)) {
        return false;
    }
    if (!guest_memory_read(memory, address, found, COMPARED) ||
        memcmp(said, found, COMPARED)) {
        return refuse(error, "process %d does not have at guest address 0x%"
                      G_GINT64_MODIFIER "x what QEMU's monitor prints there",
                      (int)f->memory->pid, address);
    }
    return true;
}

/* The oracle is the monitor, which reads as the guest does. */
static bool check_bytes(struct finding *f, GError **error)
{
    const struct guest_memory_files *files = f->memory->files;
    struct guest_memory *memory = guest_memory_open(files);
    bool good = guest_memory_size(memory) == f->memory->size ||
                refuse(error, "the guest's memory cannot be taken together");

    for (uint32_t i = 0; good && i < files->head.ranges; i++) {
        const struct btrail_memory_range *r = &files->ranges[i];

        good = compare(f, memory, r->address, error) &&
               compare(f, memory, r->address + (r->size / 2 & -PAGE),
                       error) &&
               compare(f, memory, r->address + r->size - COMPARED, error);
    }
    guest_memory_free(memory);
    return good;
}

static bool find(struct finding *f, GError **error)
{
    g_autofree char *before = NULL, *after = NULL;

    f->process = process_memory_open(f->memory->pid, f->given, error);
    if (!f->process || !check_stands(f, error) ||
        !check_migration(f, error) || !check_clear(f, error) ||
        !read_vcpus(f, error)) {
        return false;
    }
    before = hmp(f, "info mtree -f", -1, error);
    if (!before || !find_ranges(f, before, error) || !check_size(f, error) ||
        !check_bytes(f, error)) {
        return false;
    }
    /* Another client of QEMU could have plugged memory or let the guest run. */
    after = hmp(f, "info mtree -f", -1, error);
    if (!after) {
        return false;
    }
    if (strcmp(before, after)) {
        return refuse(error, "the guest's memory was changed meanwhile");
    }
    return check_stands(f, error);
}

struct stock_memory *stock_memory_open(struct qmp *qmp, pid_t pid,
                                       int memory, int timeout_ms, int cancel_fd,
                                       GError **error)
{
    struct stock_memory *m = g_new0(struct stock_memory, 1);
    struct finding f = { qmp, timeout_ms, cancel_fd, memory, NULL, m };
    bool found;

    m->files = g_new0(struct guest_memory_files, 1);
    memset(m->files->fds, -1, sizeof(m->files->fds));
    m->vcpus = g_array_new(FALSE, FALSE, sizeof(struct stock_vcpu));
    m->pid = pid ? pid : qmp_peer(qmp);
    found = m->pid > 0 ? find(&f, error) :
            refuse(error, "it is not known which process this QEMU is");
    process_memory_free(f.process);
    if (!found) {
        stock_memory_free(m);
        return NULL;
    }
    return m;
}

void stock_memory_free(struct stock_memory *m)
{
    if (m) {
        guest_memory_files_free(m->files);
        g_array_unref(m->vcpus);
        g_free(m);
    }
}

bool stock_memory_levels(const struct stock_memory *m, unsigned *levels,
                         GError **error)
{
    *levels = FROZEN_CODE_UNPAGED;
    for (unsigned i = 0; i < m->vcpus->len; i++) {
        const struct stock_vcpu *v = &g_array_index(m->vcpus,
                                                    struct stock_vcpu, i);

        if (!v->levels) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "vCPU %u has page "
                              "tables of a kind that is not read, or is in "
                              "system management mode", v->number);
        }
        if (v->levels == FROZEN_CODE_UNPAGED) {
            continue;
        }
        if (*levels != FROZEN_CODE_UNPAGED && *levels != v->levels) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "vCPU %u has page "
                              "tables of %u levels, and another one of %u",
                              v->number, v->levels, *levels);
        }
        *levels = v->levels;
    }
    return true;
}
