/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a stock QEMU has its guest's memory: this process plays QEMU, by a
 * monitor that says what a test wants
 */

#include <fcntl.h>
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest-linux/page-walk.h"
#include "pt/stock-memory.h"
#include "util/json.h"

#define MIB     (1u << 20)
#define LOW     (2 * MIB)           /* RAM, of which the monitor hides a part */
#define NOBODY  65534
#define HIGH    MIB                 /* RAM from 4 GiB on */
#define ABOVE   (UINT64_C(4) << 30)
#define ROM     UINT64_C(0xffff0000)
#define ROM_SIZE 0x10000u

#define REGISTERS \
    "\r\nCPU#0\r\nEIP=000fd0a9 EFL=00000002 [-------] CPL=0 II=0 A20=1 " \
    "SMM=%d HLT=1\r\nCR0=80050033 CR2=00000000 CR3=0000000012345000 " \
    "CR4=000006f0\r\nEFER=0000000000000d01\r\n"

/* What the monitor says that is not as usual; NULL or 0: all is */
struct fake {
    uint8_t *low, *high, *rom;
    int memfd;                      /* of @high, or -1 */
    const char *status;
    const char *last_status;        /* the second time */
    const char *migration;
    const char *encryption;
    const char *tree;
    const char *last_tree;          /* the second time */
    const char *vcpus;
    const char *sizes;
    const char *fails;              /* this command, or text of the monitor */
    int smm;
    uint64_t lie;                   /* bytes at this address are others, */
    uint64_t shift;                 /* what is at this one is elsewhere */
    unsigned pieces;                /* of one page each, from @low on */
    unsigned asked_tree, asked_status;
};

static uint8_t *at(const struct fake *f, uint64_t address)
{
    if (address >= ABOVE && address < ABOVE + HIGH) {
        return f->high + (address - ABOVE);
    }
    if (address >= ROM && address < ROM + ROM_SIZE) {
        return f->rom + (address - ROM);
    }
    return address < LOW ? f->low + address : NULL;
}

static void begin(struct fake *f, bool shared)
{
    *f = (struct fake){ .memfd = -1 };
    f->low = mmap(NULL, LOW, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    f->rom = mmap(NULL, ROM_SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared) {
        f->memfd = memfd_create("ram", MFD_CLOEXEC);
        g_assert_cmpint(ftruncate(f->memfd, HIGH), ==, 0);
    }
    f->high = mmap(NULL, HIGH, PROT_READ | PROT_WRITE,
                   shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
                   f->memfd, 0);
    g_assert_true(f->low != MAP_FAILED && f->rom != MAP_FAILED &&
                  f->high != MAP_FAILED);
    for (unsigned i = 0; i < LOW; i += 64) {
        f->low[i] = (uint8_t)(i >> 12 ^ 0x55);
    }
    memset(f->rom, 0x90, ROM_SIZE);
    strcpy((char *)f->high + 0x1234, "above");
}

static void end(struct fake *f)
{
    munmap(f->low, LOW);
    munmap(f->rom, ROM_SIZE);
    munmap(f->high, HIGH);
    if (f->memfd >= 0) {
        close(f->memfd);
    }
}

/* RAM with a hole for a VGA, which is ROM after it; a bit of RAM that ends
 * within a page */
static char *tree(struct fake *f)
{
    static const char usual[] =
        "FlatView #0\r\n AS \"memory\", root: system\r\n"
        " Root memory region: system\r\n"
        "  0000000000000000-000000000009ffff (prio 0, ram): pc.ram\r\n"
        "  00000000000a0000-00000000000bffff (prio 1, i/o): vga-lowmem\r\n"
        "  00000000000c0000-00000000000cafff (prio 0, rom): pc.ram @c\r\n"
        "  00000000000cb000-00000000001fffff (prio 0, ram): pc.ram @cb\r\n"
        "  00000000fec00800-00000000fec00bff (prio 0, ram): bit\r\n"
        "  00000000ffff0000-00000000ffffffff (prio 0, rom): pc.bios\r\n"
        "  0000000100000000-00000001000fffff (prio 0, ram): pc.ram\r\n\r\n";
    GString *text;

    if (f->asked_tree++ && f->last_tree) {
        return g_strdup(f->last_tree);
    }
    if (!f->pieces) {
        return g_strdup(f->tree ? f->tree : usual);
    }
    text = g_string_new("FlatView #0\n AS \"memory\", root: system\n"
                        " Root memory region: system\n");
    for (unsigned i = 0; i < f->pieces; i++) {
        g_string_append_printf(text, "  %016x-%016x (prio 0, ram): x\n",
                               i << 13, i << 13 | 0xfff);
    }
    return g_string_free(text, FALSE);
}

static char *bytes(struct fake *f, uint64_t address, unsigned size)
{
    GString *text = g_string_new("");

    for (unsigned i = 0; i < size; i++) {
        bool lie = f->lie && f->lie == address && i == 20;
        unsigned byte = at(f, address)[i] ^ lie;

        if (i % 8 == 0) {
            g_string_append_printf(text, "%016" G_GINT64_MODIFIER "x:",
                                   address + i);
        }
        g_string_append_printf(text, " 0x%02x%s", byte,
                               i % 8 == 7 ? "\r\n" : "");
    }
    return g_string_free(text, FALSE);
}

static char *monitor(struct fake *f, const char *line, int cpu)
{
    uint64_t address;
    unsigned size;

    if (f->fails && g_str_has_prefix(line, f->fails)) {
        return g_strdup_printf("unknown command: '%s'\r\n", line);
    }
    if (!strcmp(line, "info mtree -f")) {
        g_assert_cmpint(cpu, ==, -1);
        return tree(f);
    }
    if (!strcmp(line, "info registers")) {
        g_assert_cmpint(cpu, ==, 7);
        return g_strdup_printf(REGISTERS, f->smm);
    }
    if (sscanf(line, "gpa2hva 0x%" SCNx64, &address) == 1) {
        return g_strdup_printf("Host virtual address for 0x%" PRIx64
                               " (pc.ram) is 0x%" PRIx64 "\r\n",
                               address, (uint64_t)(uintptr_t)at(f, address) +
                               (f->shift && f->shift == address ? 4096 : 0));
    }
    /* Memory of a device must not be read: that can change the device. */
    g_assert_cmpint(sscanf(line, "xp /%uxb 0x%" SCNx64, &size, &address), ==,
                    2);
    g_assert_nonnull(at(f, address));
    g_assert_false(address >= 0xa0000 && address < 0xc0000);
    return bytes(f, address, size);
}

static JsonNode *parse(char *text)
{
    JsonNode *node = json_from_string(text, NULL);

    g_assert_nonnull(node);
    g_free(text);
    return node;
}

static JsonNode *execute(void *opaque, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    struct fake *f = opaque;
    g_autoptr(JsonObject) owned = arguments;
    JsonNode *node = NULL;

    if (f->fails && !strcmp(command, f->fails)) {
        agent_fail(error, AGENT_ERROR_NO_COMMAND, "%s: no", command);
        return NULL;
    }
    if (!strcmp(command, "query-status")) {
        const char *status = f->asked_status++ && f->last_status ?
                             f->last_status : f->status;

        return parse(g_strdup_printf("{\"status\": \"%s\"}",
                                     status ? status : "paused"));
    }
    if (!strcmp(command, "query-migrate")) {
        return parse(g_strdup_printf("{%s}", f->migration ? f->migration :
                                     ""));
    }
    if (!strcmp(command, "query-memory-size-summary")) {
        return parse(g_strdup(f->sizes ? f->sizes :
                              "{\"base-memory\": 3145728, "
                              "\"plugged-memory\": 0}"));
    }
    if (!strcmp(command, "query-cpus-fast")) {
        return parse(f->vcpus ? g_strdup(f->vcpus) :
                     g_strdup_printf("[{\"cpu-index\": 7, \"thread-id\": %d, "
                                     "\"target\": \"x86_64\"}]", getpid()));
    }
    node = json_node_new(JSON_NODE_VALUE);
    if (!strcmp(command, "qom-get")) {
        g_assert_cmpstr(btrail_json_string(arguments, "path"), ==, "/machine");
        json_node_set_string(node, f->encryption ? f->encryption : "");
    } else {
        g_autofree char *text = NULL;

        g_assert_cmpstr(command, ==, "human-monitor-command");
        text = monitor(f, btrail_json_string(arguments, "command-line"),
                       (int)btrail_json_int(arguments, "cpu-index", -1));
        json_node_set_string(node, text);
    }
    return node;
}

static struct stock_memory *ask_with(struct fake *f, pid_t pid, int memory,
                                     GError **error)
{
    struct qmp *qmp = qmp_through(execute, f);
    struct stock_memory *m = stock_memory_open(qmp, pid, memory, 1000, -1, error);

    qmp_free(qmp);
    return m;
}

static struct stock_memory *ask(struct fake *f, pid_t pid, GError **error)
{
    return ask_with(f, pid, -1, error);
}

static void check_found(bool shared)
{
    g_autoptr(GError) error = NULL;
    struct guest_memory *memory;
    const struct stock_vcpu *v;
    struct stock_memory *m;
    struct fake f;
    char text[6];

    begin(&f, shared);
    m = ask(&f, getpid(), &error);
    g_assert_no_error(error);
    g_assert_nonnull(m);
    g_assert_cmpint(m->pid, ==, getpid());
    g_assert_cmpuint(m->size, ==, LOW - 0x20000 + ROM_SIZE + HIGH);
    g_assert_cmpuint(m->vcpus->len, ==, 1);
    v = &g_array_index(m->vcpus, struct stock_vcpu, 0);
    g_assert_cmpuint(v->number, ==, 7);
    g_assert_cmpint(v->thread, ==, getpid());
    g_assert_cmpuint(v->levels, ==, 4);
    g_assert_cmphex(v->registers.cr3, ==, 0x12345000);
    g_assert_cmpuint(m->files->reason, ==, BTRAIL_MEMORY_SHARED);
    /* What is RAM and ROM of one piece there is one range. */
    g_assert_cmpuint(m->files->head.ranges, ==, 4);
    g_assert_cmpuint(m->files->head.files, ==, shared ? 2 : 1);
    g_assert_cmpuint(m->files->ranges[3].file, ==, shared ? 1 : 0);
    g_assert_cmpuint(m->files->ranges[3].address, ==, ABOVE);

    memory = guest_memory_open(m->files);
    stock_memory_free(m);
    for (uint64_t address = 0; address < LOW; address += 4096) {
        uint8_t page[4096];

        if (address >= 0xa0000 && address < 0xc0000) {
            g_assert_false(guest_memory_read(memory, address, page, 1));
        } else {
            g_assert_true(guest_memory_read(memory, address, page, 4096));
            g_assert_cmpmem(page, 4096, f.low + address, 4096);
        }
    }
    g_assert_true(guest_memory_read(memory, ABOVE + 0x1234, text, 6));
    g_assert_cmpstr(text, ==, "above");
    g_assert_false(guest_memory_read(memory, ABOVE + HIGH, text, 1));
    g_assert_false(guest_memory_read(memory, 0xfec00800, text, 1));
    g_assert_true(guest_memory_read(memory, 0xfffffff0, text, 1));
    g_assert_cmphex((uint8_t)text[0], ==, 0x90);
    guest_memory_free(memory);
    end(&f);
}

static void test_private(void)
{
    check_found(false);
}

static void test_shared(void)
{
    check_found(true);
}

static void check_refused(struct fake *f, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(ask(f, getpid(), &error));
    g_assert_nonnull(error);
    if (!strstr(error->message, why)) {
        g_test_message("'%s', not '%s'", error->message, why);
        g_test_fail();
    }
}

#define REFUSED(why, ...) do { \
    struct fake odd, usual; \
    begin(&usual, false); \
    odd = (struct fake){ .memfd = -1, .low = usual.low, .high = usual.high, \
                       .rom = usual.rom, __VA_ARGS__ }; \
    check_refused(&odd, why); \
    end(&usual); \
} while (0)

/* The guest, or its memory, is not as it must be. */
static void test_state(void)
{
    REFUSED("'running'", .status = "running");
    REFUSED("'inmigrate'", .status = "inmigrate");
    REFUSED("'x\\x1b[m'", .status = "x\\u001b[m");
    REFUSED("'running'", .last_status = "running");
    REFUSED("'postcopy-active'", .migration =
            "\"status\": \"postcopy-active\"");
    REFUSED("'postcopy-paused'", .migration =
            "\"status\": \"postcopy-paused\"");
    REFUSED("encrypted", .encryption = "/objects/sev0");
    REFUSED("changed meanwhile", .last_tree = "other");
    REFUSED("of 1076887552 bytes", .sizes =
            "{\"base-memory\": 1073741824, \"plugged-memory\": 3145728}");
}

static void test_process(void)
{
    g_autofree char *other = g_strdup_printf(
        "[{\"cpu-index\": 7, \"thread-id\": %d, \"target\": \"x86_64\"}]",
        getppid());
    g_autoptr(GError) error = NULL;
    struct fake f;

    /* Another process: its threads, or its bytes */
    REFUSED("it has no thread", .vcpus = other);
    REFUSED("at guest address 0x100000000 what", .lie = ABOVE);
    REFUSED("at guest address 0x1fffc0 what", .lie = LOW - 64);
    begin(&f, false);
    g_assert_null(ask(&f, 1 << 30, &error));
    g_assert_nonnull(strstr(error->message, "process 1073741824"));
    g_clear_error(&error);
    /* Nobody says which one. */
    g_assert_null(ask(&f, 0, &error));
    g_assert_nonnull(strstr(error->message, "not known which process"));
    end(&f);
}

static void test_strange(void)
{
    static const char *const commands[] = {
        "query-status", "query-migrate", "query-cpus-fast",
        "human-monitor-command", "query-memory-size-summary", "info mtree",
        "info registers", "gpa2hva", "xp",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        REFUSED(commands[i], .fails = commands[i]);
    }
    REFUSED("not in one piece", .shift = 0x9f000);
    REFUSED("not in one piece", .shift = ABOVE);
    REFUSED("info mtree", .tree = "FlatView #0\r\n");
    REFUSED("no list", .vcpus = "{}");
    REFUSED("no list", .vcpus = "[]");
    REFUSED("no vCPU", .vcpus = "[5]");
    REFUSED("x86", .vcpus = "[{\"cpu-index\": 7, \"thread-id\": 1}]");
    REFUSED("x86", .vcpus = "[{\"cpu-index\": 7, \"thread-id\": 1, "
                            "\"target\": \"arm\"}]");
    REFUSED("x86", .vcpus = "[{\"cpu-index\": -7, \"thread-id\": 1, "
                            "\"target\": \"x86_64\"}]");
    REFUSED("no size", .sizes = "{}");
    REFUSED("no size", .sizes = "{\"base-memory\": 9223372036854775807, "
                                "\"plugged-memory\": 1}");
    REFUSED("no object", .sizes = "[]");
    REFUSED("more than 64 pieces", .pieces = 65);
}

/* 64 pieces are all there, and in SMM nothing is said of page tables. */
static void test_most(void)
{
    g_autoptr(GError) error = NULL;
    struct stock_memory *m;
    struct fake f;

    begin(&f, false);
    f.pieces = 64;
    f.smm = 1;
    m = ask(&f, getpid(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(m->files->head.ranges, ==, 64);
    g_assert_cmpuint(m->size, ==, 64 * 4096);
    g_assert_cmpuint(g_array_index(m->vcpus, struct stock_vcpu, 0).levels, ==,
                     0);
    stock_memory_free(m);
    end(&f);
}

/* What a process without the right to read another one does, that is QEMU */
static void read_passed(struct fake *f, pid_t qemu, int memory)
{
    g_autoptr(GError) error = NULL;
    struct guest_memory *guest;
    struct stock_memory *m;
    uint8_t page[4096];

    g_assert_cmpint(setresuid(NOBODY, NOBODY, NOBODY), ==, 0);
    f->vcpus = g_strdup_printf("[{\"cpu-index\": 7, \"thread-id\": %d, "
                               "\"target\": \"x86_64\"}]", qemu);
    g_assert_null(ask(f, qemu, &error));
    g_assert_nonnull(strstr(error->message, "Permission denied; that takes "));
    g_clear_error(&error);
    m = ask_with(f, qemu, memory, &error);
    g_assert_no_error(error);
    guest = guest_memory_open(m->files);
    stock_memory_free(m);
    for (uint64_t address = 0; address < 0xa0000; address += 4096) {
        g_assert_true(guest_memory_read(guest, address, page, 4096));
        g_assert_cmpmem(page, 4096, f->low + address, 4096);
    }
    guest_memory_free(guest);
    /* That of another process is found out by the monitor's bytes. */
    f->low[0x2000] ^= 1;
    f->lie = 0x2000;
    g_assert_null(ask_with(f, qemu, STDIN_FILENO, &error));
    g_assert_nonnull(error);
}

static void test_passed(void)
{
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    pid_t qemu = getpid(), child;
    struct fake f;
    int status;

    g_assert_cmpint(memory, >=, 0);
    if (geteuid()) {
        g_test_skip("only root can be another user");
        close(memory);
        return;
    }
    begin(&f, true);
    child = fork();
    g_assert_cmpint(child, >=, 0);
    if (!child) {
        read_passed(&f, qemu, memory);
        _exit(0);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_cmpint(status, ==, 0);
    close(memory);
    end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stock-memory/private", test_private);
    g_test_add_func("/stock-memory/shared", test_shared);
    g_test_add_func("/stock-memory/state", test_state);
    g_test_add_func("/stock-memory/process", test_process);
    g_test_add_func("/stock-memory/strange", test_strange);
    g_test_add_func("/stock-memory/most", test_most);
    g_test_add_func("/stock-memory/passed", test_passed);
    return g_test_run();
}
