"""Hours' worth of mixed traffic in minutes: does any service hold more and more memory, descriptors or objects?"""
