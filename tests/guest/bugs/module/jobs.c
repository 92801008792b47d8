/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * jobs: a kernel module that corrupts a list.
 *
 * Jobs are in a list.  One that is cancelled is freed, but stays in it.  What
 * is allocated next gets its memory.  It shows when the module is removed.
 *
 * It is built without the kernel's headers: what a module has to be is taken
 * from another module of that kernel, and the functions are those of any
 * kernel of that series.
 */

#include <stddef.h>
#include <stdint.h>

#define GFP_KERNEL  0xcc0
#define SIZE        96
#define JOBS        8

struct list {
    struct list *next, *prev;
};

struct job {
    struct list list;
    uint64_t number;
    uint64_t result;
};

struct note {
    uint64_t text[SIZE / 8];
};

void *__kmalloc_noprof(size_t size, unsigned flags);
void kfree(const void *memory);
_Bool __list_del_entry_valid_or_report(struct list *entry);

static struct list jobs = { &jobs, &jobs };
static struct note *note;

/* The kernel has a heap for each place that calls this. */
static void *allocate(void)
{
    return __kmalloc_noprof(SIZE, GFP_KERNEL);
}

static void add_job(uint64_t number)
{
    struct job *job = allocate();

    job->number = number;
    job->list.next = &jobs;
    job->list.prev = jobs.prev;
    jobs.prev->next = &job->list;
    jobs.prev = &job->list;
}

static void remove_job(struct job *job)
{
    if (__list_del_entry_valid_or_report(&job->list)) {
        job->list.next->prev = job->list.prev;
        job->list.prev->next = job->list.next;
        kfree(job);
    }
}

static void cancel_job(uint64_t number)
{
    for (struct list *p = jobs.next; p != &jobs; p = p->next) {
        struct job *job = (struct job *)p;

        if (job->number == number) {
            kfree(job);
            return;
        }
    }
}

static void take_note(void)
{
    note = allocate();
    for (unsigned i = 0; i < SIZE / 8; i++) {
        note->text[i] = 1000 + i;
    }
}

int init_module(void)
{
    for (unsigned i = 0; i < JOBS; i++) {
        add_job(i);
    }
    cancel_job(JOBS / 2);
    take_note();
    return 0;
}

void cleanup_module(void)
{
    while (jobs.next != &jobs) {
        remove_job((struct job *)jobs.next);
    }
    kfree(note);
}

/* struct module: its name is behind its state and a list. */
static struct {
    uint64_t before[3];
    char name[56];
    char between[MODULE_INIT - 80];
    int (*init)(void);
    char behind[MODULE_EXIT - MODULE_INIT - 8];
    void (*exit)(void);
    char rest[MODULE_SIZE - MODULE_EXIT - 8];
} this_module __attribute__((section(".gnu.linkonce.this_module"),
                             used, aligned(64))) = {
    .name = "jobs", .init = init_module, .exit = cleanup_module,
};

static const char info[] __attribute__((section(".modinfo"), used)) =
    "license=GPL\0name=jobs\0retpoline=Y\0depends=\0" MODULE_VERMAGIC;
